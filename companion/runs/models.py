"""The models that can be asked for by name (§4.1): params/models.yml."""

from __future__ import annotations

import functools

import yaml

from companion.record.paths import ROOT


@functools.cache
def registry() -> dict[str, dict]:
    """Every model with its title and where it comes from. Read once and shared: do not change it."""
    return yaml.safe_load((ROOT / "params" / "models.yml").read_text(encoding="utf-8"))
