"""`make promote`: records finished runs, and the tuned settings that further runs read.

Only this module adds rows to rows/ or writes params/hyperparameters.yml, which nobody edits by
hand.
"""

import sys
from pathlib import Path

import yaml

from companion.store import rows, versions
from companion.store.paths import BUILD, ROOT, params

FINISHED = BUILD / "record" / "rows"
SETTINGS = ROOT / "params" / "hyperparameters.yml"
HEADER = """\
# Each method's settings, by model and data set: its searches' best, written by `make promote`.
# URLs get those of emails, and a set with shared tokens those of the set without; any other model
# or data set that is not here those of smollm2-135m for ssn. Margins and ranks below 1 are shares
# of the vocabulary; what is not named keeps the method's own default. The paper's settings for its
# models are in paper/tables.json.
"""


def promote(source: Path, target: Path) -> dict[str, list[str]]:
    """Copy the rows of ``source`` into the files of ``target``. Return their names by outcome: new,
    changed, same, or refused with the reason."""
    found: dict[str, list[str]] = {kind: [] for kind in ("new", "changed", "same", "refused")}
    recorded, taken = rows.find(target), []
    for path in sorted(source.rglob("*.json")):
        name = str(path.relative_to(source).with_suffix(""))
        old = recorded.get(name)
        try:
            row = rows.read(path)
            there = row["values"] and path.with_name(row["values"]["file"]).is_file()
            values = rows.values(row) if there else []
            if row["values"] and rows.fingerprint(values) != row["values"]["sha256"]:
                raise ValueError("its per-example values are missing or others: run it again.")
        except ValueError as error:
            found["refused"].append(f"{name}: {error}")
            continue
        if old and "failed" in row["result"] and "failed" not in old["result"]:
            found["refused"].append(f"{name}: it failed, but the recorded one did not.")
            continue
        if newer := versions.older(row):
            found["refused"].append(f"{name}: older than {', '.join(newer)}: run it again.")
            continue
        kind = "new" if not old else "same" if old["result"] == row["result"] else "changed"
        found[kind].append(name + (difference(old, row) if kind == "changed" else ""))
        taken.append((row, values))
    rows.record(target, taken)
    return found


def difference(old: dict, new: dict) -> str:
    """By how much a run's Unlearning Score changed, in points; nothing if it has none."""
    results = [row["result"].get("after", row["result"]) for row in (old, new)]
    scores = [one.get("unlearning_score") for one in results]
    if None in scores:
        return ""
    return f" (Unlearning Score {100 * scores[0]:.1f} → {100 * scores[1]:.1f})"


def tuned(searches: dict[str, dict]) -> dict[str, dict]:
    """Return the tuned settings: method → model → data set → settings.

    Settings for NAME are tuned on the tuning set NAME-tune or, without one, on NAME itself. Of
    several searches the one with the highest score counts; of equals, the one without a tag.
    """

    def order(row: dict) -> tuple:
        return row["data"].endswith("-tune"), row["result"]["unlearning_score"], not row["tag"]

    found: dict[str, dict] = {}
    for row in sorted(searches.values(), key=order):  # the last row of a model and data set wins
        data, best = row["data"].removesuffix("-tune"), row["result"]["hyperparameters"]
        found.setdefault(row["method"], {}).setdefault(row["model"], {})[data] = best
    return found


def write_settings() -> list[str]:
    """Write the tuned settings of the recorded searches; methods without a search keep theirs.
    Return the methods whose settings changed."""
    before = yaml.safe_load(SETTINGS.read_text(encoding="utf-8")) or {}
    known = before | tuned(rows.find(rows.RECORDED, kind="tune"))
    settings = {name: known[name] for name in params("methods") if name in known}
    if settings != before:
        text = yaml.safe_dump(settings, default_flow_style=None, width=150)
        rows.write_file(SETTINGS, HEADER + text)
    return [name for name in {**before, **settings} if settings.get(name) != before.get(name)]


def main() -> None:
    """The command."""
    found = promote(FINISHED, rows.RECORDED)
    for kind, names in found.items():
        print(*(f"{kind:8} {name}" for name in names), sep="\n", end="\n" if names else "")
    print("rows/: " + ", ".join(f"{len(names)} {kind}" for kind, names in found.items()) + ".")
    if changed := write_settings():
        print(
            f"params/hyperparameters.yml has other settings for {', '.join(changed)}: rows that "
            "used the old ones must be made again."
        )
    if found["refused"]:
        sys.exit(f"{len(found['refused'])} rows were refused.")


if __name__ == "__main__":
    main()
