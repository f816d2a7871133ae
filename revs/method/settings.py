"""Checks of settings, whose errors give in one sentence the name, the value and what is allowed.

``hp`` is the dataclass ``Hyperparameters`` of any method.
"""

from collections.abc import Collection


def require(hp, *positive: str, **least: float) -> None:
    """Raises ValueError unless ``positive`` settings are above 0, and those in ``least`` finite and
    at least the number given."""
    for name in (*positive, *least):
        value, right = getattr(hp, name), f"at least {least[name]}" if name in least else "positive"
        if not isinstance(value, int | float):
            raise ValueError(f"{name} is {value!r}, but must be a number.")
        if name in least and value == float("inf"):
            raise ValueError(f"{name} is {value}, but must be finite.")
        if not (value >= least[name] if name in least else value > 0):
            raise ValueError(f"{name} is {value}, but must be {right}.")


def require_one_of(hp, **known: Collection[str]) -> None:
    """Raises ValueError for a setting that is none of the words that it may be."""
    for name, words in known.items():
        if (value := getattr(hp, name)) not in words:
            raise ValueError(f"{name} is '{value}', but must be one of {', '.join(words)}.")
