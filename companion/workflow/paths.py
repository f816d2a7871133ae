"""Where the workflow's sources and products lie (in a checkout only), and how to say both."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS, HTML = BUILD / "logs", BUILD / "_build" / "html"


def shown(path: Path) -> str:
    """A path as a person in the project's root would type it."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def products(profile: str) -> Path:
    """The folder of a profile's rows and executed notebooks: quick and long ones lie apart."""
    return BUILD if profile == "quick" else BUILD / "record"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
