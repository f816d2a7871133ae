"""`python -m companion.workflow.fewer FOLDER OUT`: a part of MMLU and GSM8K in a folder of the same form, for a model that takes an hour to answer all.

Of MMLU the first items of each subject that its reviewers found without error, of GSM8K the first problems, and the first
solved ones to show before them. Lines are copied as they are: the same files give the same folder, whose hash is in the rows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from companion.record import rows
from companion.runs import MISTAKES, integrity

FILES = ("mmlu_redux/test.jsonl", "gsm8k/test.jsonl", "gsm8k/train_first200.jsonl")


def fewer(folder: Path, out: Path, each: int, problems: int, shots: int) -> None:
    """Writes the three files of a folder for ``REVS_BENCHMARKS`` to another, with fewer lines.

    Raises FileNotFoundError if one is missing, ValueError for numbers that could not be asked, and then writes none.
    """
    for name, given, least, most in (
        ("each", each, 1, integrity.EACH),
        ("problems", problems, 1, integrity.PROBLEMS),
        ("shots", shots, 0, integrity.SHOTS),
    ):
        if not least <= given <= most:
            raise ValueError(f"{name} is {given}, but a run asks from {least} to {most}.")
    if out.resolve() == folder.resolve():
        raise ValueError(f"{out} is the folder itself: name another one for the part.")
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise FileNotFoundError(
            f"There is no {', '.join(missing)} in {folder}: give the folder that REVS_BENCHMARKS names."
        )
    taken: Counter = Counter()

    def wanted(line: str) -> bool:
        item = json.loads(line)
        taken[item["subject"]] += item["error_type"] == "ok"
        return item["error_type"] == "ok" and taken[item["subject"]] <= each

    parts = [
        filter(wanted, lines(folder / FILES[0])),
        islice(lines(folder / FILES[1]), problems),
        islice(lines(folder / FILES[2]), shots),
    ]
    for name, text in zip(FILES, ["".join(part) for part in parts]):
        rows.write_text(out / name, text)


def lines(path: Path) -> Iterator[str]:
    """A file's lines as they are: a text may hold what Python's ``splitlines`` takes for an end."""
    with path.open(encoding="utf-8", newline="\n") as stream:
        yield from stream


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m companion.workflow.fewer",
        description="Cuts a part out of MMLU and GSM8K, for a large model.",
    )
    parser.add_argument(
        "folder", type=Path, help="with mmlu_redux/ and gsm8k/, as REVS_BENCHMARKS names it"
    )
    parser.add_argument("out", type=Path, help="the folder that is written, for REVS_BENCHMARKS")
    parser.add_argument("--each", type=int, default=4, help="sound items of each subject of MMLU")
    parser.add_argument("--problems", type=int, default=25, help="items of GSM8K")
    parser.add_argument("--shots", type=int, default=2, help="solved problems before each")
    try:
        fewer(**vars(parser.parse_args()))
    except MISTAKES as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
