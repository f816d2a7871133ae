"""Checks of settings, whose errors give in one sentence the name, the value and what is allowed.

``hp`` is the dataclass ``Hyperparameters`` of any method.
"""

from collections.abc import Collection, Sequence
from dataclasses import fields


def require(hp, *positive: str, **least: float) -> None:
    """Raises ValueError unless settings have their types, ``positive`` ones are above 0, and those
    in ``least`` finite and at least the number given."""
    for field in fields(hp):
        name, value = field.name, getattr(hp, field.name)
        if field.type is int and (not isinstance(value, int) or isinstance(value, bool)):
            raise ValueError(f"{name} is {value!r}, but must be a whole number.")
        if field.type in (float, float | None) and not isinstance(value, int | field.type):
            raise ValueError(f"{name} is {value!r}, but must be a number.")
        listed = isinstance(value, Sequence) and all(isinstance(l, int) for l in value)
        if name.endswith("layers") and not (listed or isinstance(value, str)):
            raise ValueError(f"{name} is {value!r}, but must be all, upper or some whole numbers.")
    for name in (*positive, *least):
        value, right = getattr(hp, name), f"at least {least[name]}" if name in least else "positive"
        if name in least and value == float("inf"):
            raise ValueError(f"{name} is {value}, but must be finite.")
        if not (value >= least[name] if name in least else value > 0):
            raise ValueError(f"{name} is {value}, but must be {right}.")


def require_one_of(hp, **known: Collection[str]) -> None:
    """Raises ValueError for a setting that is none of the words that it may be."""
    for name, words in known.items():
        if (value := getattr(hp, name)) not in words:
            raise ValueError(f"{name} is '{value}', but must be one of {', '.join(words)}.")
