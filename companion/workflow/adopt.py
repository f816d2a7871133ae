"""`make adopt`: finished runs become recorded rows, tuned settings those that runs read.

This alone writes into rows/, and into params/hyperparameters.yml, which nobody edits by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from companion.experiments import methods
from companion.experiments.finetune import finetune
from companion.store import rows
from companion.store.paths import BUILD, ROOT

FINISHED = BUILD / "record" / "rows"
SETTINGS = ROOT / "params" / "hyperparameters.yml"
LARGEST = 500_000  # bytes that the items of a recorded run may take
RESULTS = ("curate", "own", "tune", "unlearn")  # what depends on the fine-tune that it stands on
DEFAULT = ("smollm2-135m", "ssn")  # the model and data set whose settings others start from
HEADER = """\
# Each method's settings, by model and data set: the best of its trials, written by `make adopt`.
# A model or data set that is not here gets "default". Margins and ranks below 1 are fractions of
# the vocabulary; what is not named keeps the method's own default. The paper's settings for its
# models are in paper/tables.json.
"""


def adopt(source: Path, target: Path) -> dict[str, list[str]]:
    """Takes the current rows of ``source`` into the files of ``target``; says by name what was new,
    changed, the same, left or refused.

    A row is refused if it does not fit the schema, is stale, or its items are missing or others. It
    is left if it failed and the recorded one did not, or if it has other weights than recorded
    results beside it that were not made again.
    """
    said: dict[str, list[str]] = {
        kind: [] for kind in ("new", "changed", "same", "left", "refused")
    }
    recorded, made, taken = rows.find(target), {}, {}
    for path in sorted(source.rglob("*.json")):
        name = str(path.relative_to(source).with_suffix(""))
        if isinstance(row := accepted(path), str):
            said["refused"].append(f"{name}: {row}")
        elif "failed" in row["result"] and "failed" not in recorded.get(name, row)["result"]:
            said["left"].append(f"{name}: it failed, but the recorded one did not.")
        else:
            made[name] = row
    begun = {name: beginning(row) for name, row in recorded.items() if row["kind"] in RESULTS}
    for name, row in sorted(made.items(), key=lambda of: of[1]["kind"] == "memorise"):
        again = taken if row["kind"] == "memorise" else made
        if others := on_others(row, recorded, begun, again):
            some = f"{len(others)} recorded rows, such as {min(others)}, stand on other weights"
            said["left"].append(f"{name}: {some}: make those again to take it.")
            continue
        old = recorded.get(name)
        same = old is not None and old["result"] == row["result"]
        said["same" if same else "changed" if old else "new"].append(name)
        taken[name] = row, rows.listed(row)
    rows.record(target, taken.values())
    return said


def accepted(path: Path) -> dict | str:
    """A row that can be recorded, or why it cannot."""
    try:
        row = rows.read(path)
    except ValueError as error:
        return str(error)
    if rows.stale(row):
        return "it is stale: the sources have changed since it was made; run it again."
    if wanted := row["result"]["items_sha256"]:
        beside = rows.beside(path)
        items = rows.unpacked(beside) if beside.is_file() else {}
        if rows.digest(items.get(row["name"])) != wanted:
            return "its items are missing or others."
        if (size := beside.stat().st_size) > LARGEST:
            return f"its items take {size:,} bytes, and the record keeps {LARGEST:,} of a run."
    return row


def beginning(row: dict) -> tuple[str, dict | None]:
    """From which model and fine-tune a run starts, or which it is."""
    asked = row["provenance"]["settings"]
    return row["model"], asked if row["kind"] == "memorise" else finetune(asked)


def weights(row: dict) -> str:
    """The hash of what a run started from."""
    return row["provenance"]["inputs"]["model"]


def on_others(row: dict, recorded: dict, begun: dict, again: dict) -> set[str]:
    """The recorded results that would stay on other weights than this row's, if it were taken.

    Of a fine-tune that came out otherwise: those on it that are not made ``again``. Of a result:
    those on the weights of its recorded self; of a new one, on the weights of those that have
    ``begun`` like it, with its tag if some have: a tag may set another machine's rows apart. A
    search compares its own trials alone: those of other methods and data sets may stand on other
    weights.
    """
    old, now = recorded.get(row["name"]), weights(row)
    if old and old["result"] == row["result"] and weights(old) == now:
        return set()
    mine = beginning(row)
    alike = {name for name in begun if begun[name] == mine}
    if row["kind"] == "memorise":
        return alike - again.keys() if old else set()
    if row["data"].endswith("-tune"):
        own = row["data"], row["method"]
        begun = {
            name: begun[name]
            for name in alike
            if (recorded[name]["data"], recorded[name]["method"]) == own
        }
        alike = set(begun)
    tagged = {name for name in alike if recorded[name]["tag"] == row["tag"]}
    before = {weights(recorded[name]) for name in ([row["name"]] if old else tagged or alike)}
    held = {name for name in begun if weights(recorded[name]) in before and now not in before}
    return {name for name in held if weights(again.get(name, recorded[name])) != now}


def chosen(found: dict[str, dict]) -> dict[str, dict]:
    """Tuned settings, method → model → data set → settings, methods in the order of
    params/methods.yml, models and data sets in that of their names.

    Settings for NAME are chosen on NAME-tune, other people's secrets; by a search on NAME itself
    only where there is no such set. Of several searches there, the longest chooses; of those of one
    length, the one with the highest score. A new round of searches, which a tag sets apart, chooses
    for no method before it has searched all: settings of two rounds would not compare.
    """
    found, tuned = {name: row for name, row in found.items() if whole(row, found)}, {}
    worth = {
        name: (
            row["data"].endswith("-tune"),
            *(row["result"][by] for by in ("trials", "unlearning_score")),
        )
        for name, row in found.items()
    }
    for row in map(found.get, sorted(found, key=worth.get)):  # the last of a place stays
        data, best = row["data"].removesuffix("-tune"), row["result"]["hyperparameters"]
        of_method = tuned.setdefault(row["method"], {})
        of_method.setdefault(row["model"], {})[data] = best
        if (row["model"], data) == DEFAULT:
            of_method["default"] = dict(best)  # a copy: YAML would write a reference
    ordered = {}
    for name in (name for name in methods.registry() if name in tuned):
        usual = {"default": tuned[name].pop("default")} if "default" in tuned[name] else {}
        of_models = sorted(tuned[name].items())
        ordered[name] = {model: dict(sorted(of.items())) for model, of in of_models} | usual
    return ordered


def whole(row: dict, found: dict[str, dict]) -> bool:
    """Has every method that was searched before a search like this one, on this model and data?

    One that holds a setting is a method's own affair, and chooses by itself.
    """
    if row["provenance"]["settings"].get("hyperparameters"):
        return True
    searched: dict[str, set[str]] = {}
    for other in found.values():
        if (other["model"], other["data"]) == (row["model"], row["data"]):
            searched.setdefault(other["tag"], set()).add(other["method"])
    return searched[row["tag"]] >= searched.get("", set())


def text(settings: dict[str, dict]) -> str:
    """params/hyperparameters.yml as it is written."""
    return HEADER + yaml.safe_dump(settings, sort_keys=False, default_flow_style=None, width=150)


def choose() -> list[str]:
    """Writes the tuned settings of the recorded rows; the methods whose settings changed."""
    settings = chosen(rows.find(rows.RECORDED, kind="tune"))
    before = yaml.safe_load(SETTINGS.read_text(encoding="utf-8")) or {}
    if settings != before:  # another order of the same is no change
        rows.write_text(SETTINGS, text(settings))
    return [name for name in {**before, **settings} if settings.get(name) != before.get(name)]


def main() -> None:
    """The command."""
    said = adopt(FINISHED, rows.RECORDED)
    for kind, names in said.items():
        print(*(f"{kind:8} {name}" for name in names), sep="\n", end="\n" if names else "")
    if not any(said.values()):
        print(
            "There are no finished runs in build/record/rows: `make run PROFILE=core` makes them."
        )
    print("rows/: " + ", ".join(f"{len(names)} {kind}" for kind, names in said.items()) + ".")
    if changed := choose():
        print(
            f"params/hyperparameters.yml has other settings for {', '.join(changed)}: rows that "
            "used the old ones are to be made again."
        )
    if said["refused"]:
        sys.exit(f"{len(said['refused'])} rows were refused.")


if __name__ == "__main__":
    main()
