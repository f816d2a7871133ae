"""Where the workflow's sources and products lie. It runs in a checkout only."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "logs"


def shown(path: Path) -> str:
    """A path as a person in the project's root would type it."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def products(profile: str) -> Path:
    """The folder under which a profile's rows and executed notebooks lie: the quick ones and the long ones apart."""
    return BUILD if profile == "quick" else BUILD / "record"
