"""Tuned settings go where runs read them: from recorded ``tune`` rows to params/hyperparameters.yml. `make adopt` calls this.

Nobody edits that file by hand; a test holds it against the rows.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from companion.record import rows
from companion.runs import methods
from companion.workflow.paths import ROOT

FILE = ROOT / "params" / "hyperparameters.yml"
DEFAULT = ("smollm2-135m", "ssn")  # the model and data set whose settings others start from
HEADER = """\
# Each method's settings, by model and data set: the best of its trials, written by `make adopt` from the rows of `make tune`.
# A model or data set that is not here gets "default". Margins and ranks below 1 are fractions of the vocabulary; what is
# not named keeps the method's own default. The paper's settings for its models are in paper/tables.json.
"""


def chosen(found: dict[str, dict]) -> dict[str, dict]:
    """The content of the file: method → model → data set → settings, in the order of params/methods.yml.

    Settings for NAME are chosen on NAME-tune, other people's secrets; by a search on NAME itself only where there is no such set.
    Of several searches of a method there (with tags), the one with the highest score chooses.
    """
    tuned: dict[str, dict] = {}
    for row in sorted(
        found.values(),
        key=lambda row: (
            row["provenance"]["settings"]["data"].endswith("-tune"),
            row["result"]["unlearning_score"],
        ),
    ):  # the last of a place replaces the others
        asked = row["provenance"]["settings"]
        data = Path(asked["data"]).stem.removesuffix("-tune")
        model = row["provenance"]["model"]["name"]
        of_method = tuned.setdefault(asked["method"], {})
        of_method.setdefault(model, {})[data] = row["result"]["hyperparameters"]
        if (model, data) == DEFAULT:
            of_method["default"] = dict(
                row["result"]["hyperparameters"]
            )  # a copy: YAML would write a reference
    return {
        name: {
            key: tuned[name][key] for key in sorted(tuned[name], key=lambda key: key == "default")
        }
        for name in methods.registry()
        if name in tuned
    }


def text(settings: dict[str, dict]) -> str:
    """The file as it is written."""
    return HEADER + yaml.safe_dump(settings, sort_keys=False, default_flow_style=None, width=150)


def choose() -> list[str]:
    """Writes the file from the recorded rows; returns the methods whose settings changed."""
    settings = chosen(rows.find(rows.RECORDED, kind="tune"))
    before = yaml.safe_load(FILE.read_text(encoding="utf-8")) or {}
    rows.write_text(FILE, text(settings))
    return [name for name in {**before, **settings} if settings.get(name) != before.get(name)]
