"""Stamps: stale by what a result depends on, and by nothing else."""

import pytest

from companion.store import rows, stamps

ENTRY = "revs.start:run"
SOURCES = {
    "revs/start.py": '"""A run."""\nimport math\n\nfrom revs.room import far\nfrom revs.room.far '
    "import LIMIT, helper as help_me\n\n\ndef run(x, data=1):\n    return help_me(x) + "
    'math.sin(x) + far.other(data) + LIMIT\n\n\ndef unused():\n    return f"no {LIMIT}"\n',
    "revs/room/__init__.py": "",
    "revs/room/far.py": "LIMIT = 3\nTABLE = {}\nTABLE['a'] = LIMIT\n\n\ndef helper(x):\n    "
    "return Kept(x).value\n\n\nclass Kept:\n    value = 0\n\n    def __init__(self, x):\n        "
    "self.value = x\n\n\ndef other(data):\n    return TABLE[data]\n",
}


def stamp(folder, monkeypatch, sources, entry=ENTRY):
    """The stamp of the entry in a project of these sources."""
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(stamps, "PACKAGES", folder)
    for cached in (stamps.definition, stamps.names, stamps.reached):
        cached.cache_clear()
    return stamps.digest(stamps.reached(entry))


@pytest.fixture(autouse=True)
def fresh():
    yield
    for cached in (stamps.definition, stamps.names, stamps.reached):
        cached.cache_clear()


def changed(name, old, new):
    """The sources with one text replaced."""
    assert old in SOURCES[name]
    return SOURCES | {name: SOURCES[name].replace(old, new)}


START, FAR = "revs/start.py", "revs/room/far.py"
SAME = {
    "docstring": changed(START, "A run.", "Another."),
    "comment": changed(FAR, "LIMIT = 3", "LIMIT = 3  # of all"),
    "layout": changed(START, "def run(x, data=1)", "def run(\n    x,\n    data=1,\n)"),
    "what is not reached": changed(START, "no {", "yes {"),
    "import style": changed(
        START, "from revs.room.far import LIMIT, helper as help_me", "import revs.room.far"
    )
    | {
        START: SOURCES[START]
        .replace("from revs.room.far import LIMIT, helper as help_me", "import math as m")
        .replace("help_me(", "far.helper(")
        .replace("+ LIMIT", "+ far.LIMIT")
        .replace("math.sin", "m.sin")
    },
}
OTHER = {
    "entry": changed(START, "math.sin", "math.cos"),
    "default": changed(START, "data=1", "data=2"),
    "constant": changed(FAR, "LIMIT = 3", "LIMIT = 4"),
    "what fills a table": changed(FAR, "TABLE['a'] =", "TABLE['b'] ="),
    "a method of a class": changed(FAR, "self.value = x", "self.value = -x"),
    "a function further away": changed(FAR, "TABLE[data]", "TABLE.get(data)"),
}


@pytest.mark.parametrize("what", SAME)
def test_what_python_does_not_run_changes_no_stamp(tmp_path, monkeypatch, what):
    before = stamp(tmp_path / "a", monkeypatch, SOURCES)
    assert stamp(tmp_path / "b", monkeypatch, SAME[what]) == before


@pytest.mark.parametrize("what", OTHER)
def test_a_changed_definition_changes_the_stamp(tmp_path, monkeypatch, what):
    before = stamp(tmp_path / "a", monkeypatch, SOURCES)
    assert stamp(tmp_path / "b", monkeypatch, OTHER[what]) != before


def test_a_move_changes_no_stamp(tmp_path, monkeypatch):
    before = stamp(tmp_path / "a", monkeypatch, SOURCES)
    moved = {
        name.replace("revs/room/far", "companion/near").replace("room/", ""): text.replace(
            "from revs.room import far", "from companion import near as far"
        ).replace("revs.room.far", "companion.near")
        for name, text in SOURCES.items()
    } | {"companion/__init__.py": ""}
    assert stamp(tmp_path / "b", monkeypatch, moved) == before


def test_a_local_name_is_not_the_modules(tmp_path, monkeypatch):
    """A parameter that is called as a module is follows nothing."""
    hidden = changed(START, "def run(x, data=1)", "def run(x, far, data=1)")
    before = stamp(tmp_path / "a", monkeypatch, hidden)
    other = hidden | {FAR: SOURCES[FAR].replace("TABLE[data]", "None")}
    assert stamp(tmp_path / "b", monkeypatch, other) == before


def test_pinned_modules_are_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(stamps, "PINNED", {"revs.room.far"})
    before = stamp(tmp_path / "a", monkeypatch, SOURCES)
    assert stamp(tmp_path / "b", monkeypatch, OTHER["constant"]) == before


def test_an_entry_that_is_gone_makes_a_row_stale(tmp_path, monkeypatch):
    with pytest.raises(KeyError):
        stamp(tmp_path, monkeypatch, SOURCES, "revs.start:walk")
    monkeypatch.undo()
    made = {"settings": {"method": "gone"}, "inputs": {}, "stamp": "x"}
    assert rows.stale({"kind": "unlearn", "provenance": made})


def test_every_row_begins_somewhere():
    """Methods and measures that settings name are among the entries."""
    asked = {"method": "memit", "measures": ["attacks", "cue"]}
    found = stamps.entries("unlearn", asked)
    assert [entry.split(":")[1] for entry in found] == [
        *("run", "Hyperparameters", "unlearn", "measure", "measure")
    ]
    assert len({name for name, _ in stamps.reached(*found)}) > 50


def test_a_fine_tune_is_in_the_stamp_of_its_own_row_alone():
    """Runs that start from it know its weights by their hash."""
    names = lambda kind: {name for name, _ in stamps.reached(stamps.RUN.format(kind=kind))}
    assert "learn_digits" in names("memorise") - names("unlearn") and "effect" in names("unlearn")
