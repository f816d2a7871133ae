"""`make compare A=… B=…`: two sets of rows side by side."""

from __future__ import annotations

import argparse
import sys

from companion.record.compare import side_by_side


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="make compare",
        description="Prints means ± standard deviations over seeds (their number), in per cent.",
    )
    parser.add_argument("a", help="paper, record, build or a folder of rows")
    parser.add_argument("b", help="the same, for the other side")
    arguments = parser.parse_args()
    try:
        print(side_by_side(arguments.a, arguments.b).to_string(index=False))
    except (ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
