"""`make record`: what is recorded of each sweep, what is missing, and which rows are older."""

from collections import Counter

from companion.store import rows, versions
from companion.workflow.sweep import Job, known, read

FREE = {"hyperparameters", "overrides", "rows", "tag"}  # settings that do not identify a run


def recorded(name: str) -> tuple[list[dict], list[str]]:
    """Return a sweep's recorded rows, and the names of the runs that are not recorded."""
    found, jobs = rows.find(rows.RECORDED), read(name).jobs
    there = [found[job] for job in jobs if job in found and same_settings(jobs[job], found[job])]
    done = {row["name"] for row in there}
    return there, [job for job in jobs if job not in done]


def same_settings(job: Job, row: dict) -> bool:
    """Was a row made with the settings that a sweep asks for? Tuned ones are not compared."""
    had, asked = row["settings"], job.settings.model_dump(exclude=FREE)
    typed = getattr(job.settings, "hyperparameters", None) or {}
    # a row does not contain the path of a user's documents
    same = all(had[name] in (value, "") for name, value in asked.items() if name in had)
    chosen = had.get("hyperparameters") or {}  # without what was left at the method's default
    return same and all(chosen.get(name) == value for name, value in typed.items())


def overview() -> list[str]:
    """One line a sweep, and one for each reason why rows may be older."""
    lines, older = [], Counter()
    for name in known():
        there, missing = recorded(name)
        line = f"{name:20} {len(there):4} of {len(there) + len(missing):4} runs are recorded"
        line += f"; missing: {missing[0]}" if missing else ""
        lines.append(line + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""))
    for row in rows.find(rows.RECORDED).values():
        if names := versions.older(row):
            older[", ".join(names), versions.reason(row) or "not allowed by rows/older.yml"] += 1
    said = (f"{number} rows are older ({what}): {why}" for (what, why), number in older.items())
    return [*lines, *said]


if __name__ == "__main__":
    print("\n".join(overview()))
