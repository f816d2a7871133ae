"""The times in the README are those of a recorded run."""

import json

from companion.record.paths import ROOT
from companion.workflow.timing import TIMING, readme, table


def test_the_readme_shows_the_recorded_times():
    timing = json.loads(TIMING.read_text())
    assert table(timing) in (ROOT / "README.md").read_text()
    assert readme(timing) == (ROOT / "README.md").read_text()


def test_the_limits_of_the_readme_hold():
    """Clone to book in 20 minutes on two cores, at most 12 of them after installation."""
    seconds = json.loads(TIMING.read_text())["seconds"]
    assert (
        sum(seconds.values()) <= 20 * 60 and sum(seconds.values()) - seconds["install"] <= 12 * 60
    )
