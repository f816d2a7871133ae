"""The last line of `make book`: does this machine reproduce the recorded rows?

A run of this build is compared with the recorded run of the same name if both have the same inputs,
versions and settings, except for what is measured. Another processor rounds sums differently: an
edit that stops at a given rank may stop a step earlier or later.
"""

from pathlib import Path

from companion.store import rows

TOLERANCE = 2.0  # points by which a score may differ
SCORES = ("efficacy", "generalization", "specificity", "unlearning_score")
MEASURED = {"measures", "generate"}  # settings that decide what a run measures, not what it does


def is_same_run(one: dict, other: dict) -> bool:
    """Did two rows of one name come from the same edit of the same model?"""
    fields = ("settings", "inputs", "versions")
    return all("after" in row["result"] for row in (one, other)) and all(
        one[field][name] == other[field][name]
        for field in fields
        for name in (one[field].keys() & other[field].keys()) - MEASURED
    )


def differences(built: Path = rows.MEASURED, recorded: Path = rows.RECORDED) -> dict[str, float]:
    """Return the largest difference of scores, in points, by name of each run in both folders."""
    here, there = (rows.find(folder, kind="unlearn") for folder in (built, recorded))
    found = {}
    for name in sorted(here.keys() & there.keys()):
        if is_same_run(here[name], there[name]):
            pair = here[name]["result"]["after"], there[name]["result"]["after"]
            known = [score for score in SCORES if pair[0][score] is not None]
            found[name] = max(100 * abs(pair[0][score] - pair[1][score]) for score in known)
    return found


def sentence(found: dict[str, float]) -> str:
    """Return the build's verdict on the runs that were compared."""
    if not found:
        return "No run of this build is recorded with the same settings: nothing is compared."
    name = max(found, key=found.get)
    verdict = "agrees" if found[name] <= TOLERANCE else "does NOT agree"
    return (
        f"This machine {verdict} with the recorded rows: the largest difference of a score is "
        f"{found[name]:.1f} points ({name}; {TOLERANCE:.0f} are allowed)."
    )
