"""The secrets of a list, one per line, and where they stand in a text."""

import functools
import os
import re
from collections.abc import Sequence
from pathlib import Path

from document_audit import detection
from document_audit.detection import Span


class SecretList:
    """The secrets of a list: the line of each, which stand in documents, which on their own."""

    def __init__(self, path: str | Path):
        self.lines, self.present, self.alone = lines_by_secret(path), set(), set()

    def spans(self, text: str) -> list[Span]:
        """Where they stand in a text, in order; of two that overlap, the longer."""
        present = [secret for secret in self.lines if secret in text]
        found = spans_of(present, text)
        self.present.update(present)
        self.alone.update(text[span.start : span.end] for span in found)
        return found

    def only_inside_others(self) -> set[str]:
        """What stands in the documents, but nowhere on its own.

        Raises ValueError if nothing of the list stands there.
        """
        if not self.present:
            raise ValueError(
                f"None of the secrets listed ({len(self.lines)}) stands in the documents: write "
                "each as it stands there, or name the documents that hold them."
            )
        return self.present - self.alone

    def absent_lines(self) -> list[int]:
        """The numbers of the lines that stand in no document."""
        return [line for secret, line in self.lines.items() if secret not in self.present]


def lines_by_secret(path: str | Path) -> dict[str, int]:
    """The secrets of a text file, one per line, each with the number of its first line."""
    try:
        text = Path(os.path.expanduser(path)).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            "The file of secrets is not UTF-8: save it as UTF-8 text, one secret on a line."
        ) from None
    except (OSError, RuntimeError):  # each would name the path
        raise OSError(
            "There is no file of secrets at the path given, or it cannot be read: name a text file "
            "with one secret on a line."
        ) from None
    found: dict[str, int] = {}
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        if "\0" in line or not any(sign.isprintable() and not sign.isspace() for sign in line):
            wrong = "holds a NUL character" if "\0" in line else "is empty"
            raise ValueError(
                f"Line {number} of the file of secrets {wrong}: give one secret on every line."
            )
        found.setdefault(line.strip(), number)
    return found


def spans_of(secrets: Sequence[str], text: str) -> list[Span]:
    """Where listed secrets stand in a text, in order; of two that overlap, the longer."""
    ordered = sorted(secrets, key=lambda secret: (-len(secret), secret))
    every = [
        Span(kind_of(secret), match.start(), match.end())
        for secret in ordered
        for match in re.finditer(re.escape(secret), text)
    ]
    return detection.without_overlaps(every, len(text))


@functools.cache
def kind_of(secret: str) -> str:
    """What sort of secret a listed one is; URLs are text: the paper's filters are not for lists."""
    spans = detection.secret_spans(secret)
    whole = [one.kind for one in spans if (one.start, one.end) == (0, len(secret))]
    return whole[0] if whole and whole[0] != "url" else "text"
