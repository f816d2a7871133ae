"""How an answer is judged: by the same cases as ``revs``, then by the mistakes that people make.

An exercise holds some cases with the answers of ``revs``, and for each common mistake a function
that makes it. A student's function that agrees with ``revs`` is right; one that agrees with a
mistake is told which. For any other, shape, sign and scale are compared, and the first case that
differs is shown.
"""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

MODULES = ("scores", "geometry", "edits", "models")  # of this package: they add the exercises
KNOWN: dict[str, Exercise] = {}
FEW = 6  # numbers that are shown as they are


class Wrong(AssertionError):
    """What is wrong with an answer, in one or two sentences."""

    def _render_traceback_(self) -> list[str]:
        return [f"Not yet: {self}"]  # a notebook shows this line alone


@dataclass(frozen=True)
class Raised:
    """What stands for a result where a function stopped with an exception."""

    kind: str
    message: str = field(default="", compare=False)


@dataclass(frozen=True)
class Exercise:
    """One exercise with a checker.

    ``judge`` gets the student's function; it returns what to say if that is right, and raises
    ``Wrong`` if it is not. ``mistakes``: what to say → a function that makes the mistake.
    """

    judge: Callable[[Callable], str]
    mistakes: Mapping[str, Callable]


def check(name: str) -> Callable[[Callable], str]:
    """The checker of an exercise. KeyError, with the names that there are, for any other name."""
    names()
    if name not in KNOWN:
        raise KeyError(f"There is no exercise '{name}': there are {', '.join(names())}.")

    def checker(function: Callable) -> str:
        if not callable(function):
            raise Wrong(f"Give the function itself: check('{name}')(f), not check('{name}')(f(…)).")
        return KNOWN[name].judge(function)

    return checker


def names() -> list[str]:
    """The names of all exercises that have a checker."""
    for module in MODULES:
        importlib.import_module(f"teaching.{module}")
    return list(KNOWN)


def compare(
    name: str,
    call: str,
    cases: Callable[[], Sequence[tuple]],
    right: Callable,
    mistakes: Mapping[str, Callable],
    in_revs: bool = True,
) -> None:
    """Adds an exercise whose answers are compared, case by case, with those of ``right``.

    ``call`` shows how the function is called and what it returns. ``in_revs`` is False if ``right``
    is a formula for which revs has no function.
    """

    def judge(function: Callable) -> str:
        given = cases()
        wanted, found = results(right, given), results(function, given)
        if same(found, wanted):
            return f"Right: {name} agrees{' with revs' * in_revs} in all {len(given)} cases."
        for said, wrong in mistakes.items():
            if same(found, results(wrong, given)):
                raise Wrong(said)
        raise Wrong(difference(given, found, wanted, call))

    KNOWN[name] = Exercise(judge, mistakes)


def examine(name: str, judge: Callable[[Callable], str], mistakes: Mapping[str, Callable]) -> None:
    """Adds an exercise with many right answers, which ``judge`` tries out on the toy model."""

    def judged(function: Callable) -> str:
        try:
            return judge(function)
        except Wrong:
            raise
        except Exception as error:
            raise Wrong(f"It stopped with {type(error).__name__}: {error}") from error

    KNOWN[name] = Exercise(judged, mistakes)


def results(function: Callable, cases: Sequence[tuple]) -> list:
    """What a function returns for each case, of which it gets copies."""
    found: list[Any] = []
    for case in cases:
        try:
            found.append(value(function(*copy.deepcopy(case))))
        except Exception as error:
            found.append(Raised(type(error).__name__, str(error)))
    return found


def value(result: Any) -> Any:
    """A result as float64 numbers where it can be one; None, texts and ragged lists as they are."""
    if isinstance(result, set | frozenset):
        result = sorted(result)
    if result is None or isinstance(result, str):
        return result
    if isinstance(result, Tensor):
        return result.detach().double().cpu()
    try:
        return torch.as_tensor(result, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return result


def same(some: Sequence, others: Sequence) -> bool:
    """Do two functions agree in every case?"""
    return all(alike(one, other) for one, other in zip(some, others, strict=True))


def alike(one: Any, other: Any) -> bool:
    """Are two results equal, but for rounding?"""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape:
            return False
        scale = float(other.abs().nan_to_num(posinf=0, neginf=0).max()) if other.numel() else 0.0
        return torch.allclose(one, other, rtol=1e-4, atol=1e-5 * scale or 1e-12, equal_nan=True)
    return type(one) is type(other) and one == other


def difference(cases: Sequence[tuple], found: list, wanted: list, call: str) -> str:
    """What to say of an answer that makes none of the known mistakes."""
    at = next(i for i, pair in enumerate(zip(found, wanted)) if not alike(*pair))
    one, other = found[at], wanted[at]
    if isinstance(one, Raised) and one != other:
        return f"It stopped with {one.kind}: {one.message} It is called {call}."
    if one is None:
        return "It returns nothing: does its last line say return?"
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return f"It returns {short(one)}, but should return {short(other)}. It is called {call}."
    if one.shape != other.shape:
        turned = one.dim() == 2 and one.T.shape == other.shape
        said = f"The result has the shape {tuple(one.shape)} instead of {tuple(other.shape)}"
        return said + (": it is transposed." if turned else f". It is called {call}.")
    if one.isnan().any() and not other.isnan().any():
        return f"The result holds NaN in case {at + 1}: is something divided by zero?"
    numbers = [pair for pair in zip(found, wanted) if isinstance(pair[0], Tensor)]
    if all(a.shape == b.shape for a, b in numbers) and len(numbers) == len(found):
        if all(alike(-a, b) for a, b in numbers):
            return "The sign is wrong: every number is right but for its sign."
        ratio = scale_between(numbers)
        if ratio:
            return f"Every number is {ratio:g} times what it should be."
    if one.numel() > FEW:
        if alike(one.flatten().sort().values, other.flatten().sort().values):
            return f"Case {at + 1}: the numbers are right, and stand in another order."
        differ = ~torch.isclose(one, other, rtol=1e-4, equal_nan=True)
        first = tuple(differ.nonzero()[0].tolist())
        said = f"entry {list(first)} is {one[first]:.4g} instead of {other[first]:.4g}"
        return f"Case {at + 1}: {said}; {int(differ.sum())} of {one.numel()} entries differ."
    given = ", ".join(map(short, cases[at]))
    return f"Case {at + 1}: for {given} it gives {short(one)}, but should give {short(other)}."


def scale_between(numbers: Sequence[tuple[Tensor, Tensor]]) -> float | None:
    """The one factor between results and what they should be, if there is one."""
    a = torch.cat([one.flatten() for one, _ in numbers])
    b = torch.cat([other.flatten() for _, other in numbers])
    moved = b != 0
    if not moved.any() or not torch.isfinite(a).all() or not torch.isfinite(b).all():
        return None
    ratio = float((a[moved] / b[moved]).median())
    return ratio if ratio and math.isfinite(ratio) and alike(a, ratio * b) else None


def short(one: Any) -> str:
    """A value, or the shape of one that is long."""
    if isinstance(one, Raised):
        return one.kind
    if isinstance(one, Tensor):
        if one.numel() > FEW:
            return f"a tensor of shape {tuple(one.shape)}"
        return str([round(x, 4) for x in one.tolist()] if one.dim() == 1 else one.tolist())
    return one if isinstance(one, str) and len(one) < 80 else repr(one)[:80]
