"""The end of a sentence about an unknown name: the nearest known one, or all of them."""

import difflib
from collections.abc import Iterable


def hint(name, known: Iterable[str], otherwise: str = "there are") -> str:
    """ ": did you mean 'seed'?", or ": there are a, b." where nothing is near."""
    known = list(known)
    close = difflib.get_close_matches(str(name), known, 1)
    return f": did you mean '{close[0]}'?" if close else f": {otherwise} {', '.join(known)}."
