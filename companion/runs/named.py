"""What a fine-tune's row is called: how it differs from the usual one."""

from __future__ import annotations


def ending(settings: dict, usual: dict) -> str:
    """The end of the name of a fine-tune of these settings; empty for the usual ones."""
    digits = "" if settings["digits"] == usual["digits"] else f"-{settings['digits']}"
    alone = "" if settings["ordinary"] else "-alone"  # without ordinary text beside the secrets
    seed = f"-seed{settings['seed']}" if settings["seed"] else ""
    return digits + alone + "-autocast" * settings["autocast"] + seed
