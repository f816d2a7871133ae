"""What a fine-tune's row is called, and whose settings a data set takes."""

from __future__ import annotations

import re


def ending(settings: dict, usual: dict) -> str:
    """The end of the name of a fine-tune of these settings; empty for the usual ones."""
    digits = "" if settings["digits"] == usual["digits"] else f"-{settings['digits']}"
    alone = "" if settings["general_text"] else "-alone"  # without ordinary text beside the secrets
    seed = f"-seed{settings['seed']}" if settings["seed"] else ""
    return digits + alone + "-autocast" * settings["autocast"] + seed


def like(data: str) -> str:
    """Whose settings a set takes, if it has none: URLs the addresses' beside them (§4.5), a set with
    shared tokens those of the one without."""
    data = re.sub(r"-shared(-tune)?$", r"\1", data)
    return re.sub(r"(^|[-_])url(s?)$", r"\1email\2", data)
