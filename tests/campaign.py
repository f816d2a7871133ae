"""Kills `make book` again and again, and asks whether the same command still ends as it should.

    python tests/campaign.py EMPTY_CLONE --kills 50

A round starts without ``build/`` and goes on until the book is there; a kill waits for the stage
that was killed least, and hits it at a random moment. Three parts of the build are killed: the
command itself, Snakemake, or a kernel, as the system does when memory ends. A minute later no
process may be left; at the end of each round the rows must be those of a round without kills, and
every page and the book must be whole.

Then the build meets other faults (``FAULTS``, which need Linux and root): where it ends badly it
must say so in its last line, and end well as soon as the fault is fixed. Counts go to
``build/campaign.json``. It takes an hour or more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

STAGES = ("curate", "unlearn", "tune", "documents", "pages", "book")
VICTIMS = {"the command": 3, "Snakemake": 1, "a kernel": 1}  # how often, relative to each other
PATIENCE = 1800  # seconds that a build may take
LAST = 60  # seconds after a kill in which everything that the build has started must end
VOLATILE = {"seconds", "date", "environment", "commit", "peak_memory_mb", "extra_memory_mb"}
TIMED = {"documents"}  # experiments that search for some minutes, not for some trials
LIMIT = "/sys/fs/cgroup/memory/campaign"
# a fault: commands that make it, meet it, mend it and clear away what they made
FAULTS = {
    "a full disk": (
        "mkdir build && mount -t tmpfs -o size=40m tmpfs build",
        "make book",
        "mount -o remount,size=2g build",
        "umount build",
    ),
    "results that cannot be written": (
        "mkdir -p build/rows && mount --bind build/rows build/rows"
        " && mount -o remount,bind,ro build/rows",
        "make book",
        "umount build/rows",
        "true",
    ),
    "a clock that jumped": (
        "make book && find build -type f | awk 'NR % 3 == 0' | xargs touch -d '+30 days'"
        " && find build -type f | awk 'NR % 3 == 1' | xargs touch -d '-30 days'",
        "make book",
        "true",
        "true",
    ),
    "two builds at once": ("true", "make book & sleep 20; make book; wait $!", "true", "true"),
    "one core and 4 GiB": (
        f"mkdir -p {LIMIT} && echo 4G > {LIMIT}/memory.limit_in_bytes",
        f"echo $$ > {LIMIT}/cgroup.procs && taskset -c 0 make book",
        "true",
        f"sleep 2; rmdir {LIMIT}",
    ),
}


def processes(clone: Path) -> list[psutil.Process]:
    """The Python processes that run in a clone, but for this one."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        words, place = process.info["cmdline"] or [""], Path(process.info["cwd"] or "/")
        alive = process.info["status"] != psutil.STATUS_ZOMBIE
        mine = process.pid == os.getpid()
        if alive and not mine and "python" in words[0] and place.is_relative_to(clone):
            found.append(process)
    return found


def running(clone: Path) -> set[str]:
    """The stages whose jobs have begun and not ended, by Snakemake's log."""
    log = clone / "build" / "logs" / "snakemake.log"
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    begun = re.findall(r"^ +log: logs/(\w+).*\n +jobid: (\d+)", text, re.MULTILINE)
    ended = re.findall(r"^Finished jobid: (\d+)", text, re.MULTILINE)
    return {name for name, number in begun if number not in ended}


def rows(clone: Path) -> dict[str, dict]:
    """The rows of a build without what differs from run to run."""
    found = {}
    for path in sorted((clone / "build" / "rows").rglob("*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        kept = {name: value for name, value in row.items() if name not in VOLATILE}
        name = str(path.relative_to(clone / "build" / "rows"))
        found[name] = {"name": row["name"]} if row["kind"] in TIMED else kept
    return found


def faults(clone: Path, expected: dict[str, dict]) -> list[str]:
    """What is wrong with a build that has ended well."""
    made, said = rows(clone), []
    said += [f"row {name} differs" for name in expected if made.get(name) != expected[name]]
    said += [f"row {name} is new" for name in made if name not in expected]
    for path in (clone / "build" / "notebooks").rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        said += [f"{path.name} shows an error" for one in outputs if one["output_type"] == "error"]
    html = clone / "build" / "_build" / "html"
    pages = [page for page in html.glob("**/*.html") if "_static" not in page.parts]
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages}
    whole = lambda text: "</html>" in text or "<body" not in text  # that of a moved page is short
    said += [f"{name} ends early" for name, text in texts.items() if not whole(text)]
    return said + ([] if (html / "index.html").is_file() else ["there is no book"])


def start(clone: Path) -> subprocess.Popen:
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(["make", "book"], cwd=clone, start_new_session=True, **pipes)


def victim(clone: Path, kind: str) -> psutil.Process | None:
    """A process of this kind."""
    signs = {"the command": "workflow.build", "Snakemake": "snakemake", "a kernel": "ipykernel"}
    known = [one for one in processes(clone) if signs[kind] in " ".join(one.cmdline())]
    return random.choice(known) if known else None


def killed(clone: Path, counts: dict[str, Counter]) -> bool:
    """Starts a build and kills it; False if it ended before that. AssertionError if something is
    left."""
    build, hit, since = start(clone), None, time.monotonic()
    kind = random.choices(list(VICTIMS), VICTIMS.values())[0]
    while hit is None:
        if build.poll() is not None:
            assert build.returncode == 0, build.stderr.read()
            return False
        least = min(counts["stages"][name] for name in STAGES)
        rare = {name for name in running(clone) if counts["stages"][name] <= least + 2}
        if rare or time.monotonic() - since > PATIENCE / 30:
            time.sleep(random.uniform(0, 20))
            now, hit = running(clone), victim(clone, kind)
        time.sleep(0.2)
    hit.kill()
    counts["victims"][kind] += 1
    counts["stages"].update(now or {"between two stages"})
    build.wait(timeout=PATIENCE)  # after the death of a kernel the build ends by itself
    since = time.monotonic()
    while left := processes(clone):
        assert time.monotonic() - since < LAST, f"left after {kind} was killed: {left}"
        time.sleep(0.2)
    counts["left"]["seconds"] = max(counts["left"]["seconds"], round(time.monotonic() - since))
    return True


def met(clone: Path, name: str, expected: dict[str, dict]) -> dict:
    """What a build said of a fault, and what is wrong with the build after it."""
    make, meet, mend, clear = FAULTS[name]
    shell = {"cwd": clone, "shell": True, "executable": "/bin/bash", "text": True}
    shutil.rmtree(clone / "build", ignore_errors=True)
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, **shell)
    done = subprocess.run(meet, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **shell)
    lines = done.stderr.replace(f"{clone}/", "").splitlines()
    said = [line for line in lines if not line.startswith("make: ")]
    subprocess.run(mend, check=True, **shell)
    build = start(clone)
    wrong = [build.stderr.read()] if build.wait(timeout=PATIENCE) else faults(clone, expected)
    subprocess.run(clear, check=True, **shell)
    return {"code": done.returncode, "said": said[-1:], "faults": wrong}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("clone", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    given = parser.parse_args()
    clone = given.clone.resolve()
    counts = {"stages": Counter(dict.fromkeys(STAGES, 0)), "victims": Counter(), "left": Counter()}
    build = start(clone)
    if build.wait(timeout=PATIENCE):
        sys.exit(f"The build fails without a kill: {build.stderr.read()}")
    expected = rows(clone)
    found = faults(clone, expected)
    while counts["victims"].total() < given.kills and not found:
        shutil.rmtree(clone / "build")
        while killed(clone, counts):
            print({name: dict(one) for name, one in counts.items()}, flush=True)
            if counts["victims"].total() >= given.kills:
                break
        build = start(clone)
        if build.wait(timeout=PATIENCE):
            found.append(build.stderr.read())
        found += faults(clone, expected)
    others = {}
    for name in FAULTS:
        others[name] = met(clone, name, expected)
        print(name, others[name], flush=True)
        found += others[name]["faults"]
    result = {name: dict(one) for name, one in counts.items()}
    result |= {"others": others, "faults": found}
    (clone / "build").mkdir(exist_ok=True)
    (clone / "build" / "campaign.json").write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(f"Found: {'; '.join(found)}" if found else 0)


if __name__ == "__main__":
    main()
