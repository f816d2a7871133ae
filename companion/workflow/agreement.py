"""The last line of `make book`: does this machine make the recorded rows again?

A run of this build is compared with the recorded run of its name if both have the same inputs and
versions, and the same settings but for what is measured. On another processor sums are rounded in
another way, so that an edit that stops at a rank may stop a step earlier or later.
"""

from pathlib import Path

from companion.store import rows

TOLERANCE = 2.0  # points by which a score may differ
SCORES = ("efficacy", "generalization", "specificity", "unlearning_score")
MEASURED = {"measures", "generate"}  # settings that decide what a run measures, not what it does


def is_same_run(one: dict, other: dict) -> bool:
    """Did two rows of one name come from the same edit of the same model?"""
    fields = ("settings", "inputs", "versions")
    pairs = [
        (one[field][name], other[field][name])
        for field in fields
        for name in (one[field].keys() & other[field].keys()) - MEASURED
    ]
    whole = all("after" in row["result"] for row in (one, other))
    return whole and all(here == there for here, there in pairs)


def differences(built: Path = rows.MEASURED, recorded: Path = rows.RECORDED) -> dict[str, float]:
    """By the name of a run in both folders: the largest difference of its scores, in points."""
    here, there = (rows.find(folder, kind="unlearn") for folder in (built, recorded))
    found = {}
    for name in sorted(here.keys() & there.keys()):
        if is_same_run(here[name], there[name]):
            pair = here[name]["result"]["after"], there[name]["result"]["after"]
            known = [score for score in SCORES if pair[0][score] is not None]
            found[name] = max(100 * abs(pair[0][score] - pair[1][score]) for score in known)
    return found


def sentence(found: dict[str, float]) -> str:
    """What the build says of the runs that it made again."""
    if not found:
        return "No run of this build is recorded with the same settings: nothing is compared."
    name = max(found, key=found.get)
    verdict = "agrees" if found[name] <= TOLERANCE else "does NOT agree"
    return (
        f"This machine {verdict} with the recorded rows: the largest difference of a score is "
        f"{found[name]:.1f} points ({name}; {TOLERANCE:.0f} are allowed)."
    )
