"""A part of the benchmarks: the same items as the whole begins with, in files of the same form."""

import json

import pytest

from companion.runs import integrity
from companion.workflow import fewer


@pytest.fixture
def whole(tmp_path):
    """A folder with three subjects of three sound items each, one unsound before them, and a text with a separator of lines in it."""
    items = [
        {
            "subject": subject,
            "question": f"{subject} {number}\u2028?",
            "choices": list("abcd"),
            "answer": 0,
            "error_type": "ok" if number else "no correct answer",
        }
        for subject in "xyz"
        for number in range(4)
    ]
    solved = [{"question": f"{number}?", "answer": f"#### {number}"} for number in range(6)]
    for name, content in zip(fewer.FILES, (items, solved, solved)):
        (tmp_path / "whole" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "whole" / name).write_text(
            "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in content),
            encoding="utf-8",
        )
    return tmp_path / "whole"


def test_the_first_sound_items_of_each_subject_and_the_first_problems(whole, tmp_path, monkeypatch):
    fewer.fewer(whole, tmp_path / "part", each=2, problems=4, shots=1)
    items, problems, solved = (
        [json.loads(line) for line in fewer.lines(tmp_path / "part" / name)] for name in fewer.FILES
    )
    assert [item["question"] for item in items] == [
        f"{subject} {number}\u2028?" for subject in "xyz" for number in (1, 2)
    ]
    assert [item["answer"] for item in problems] == [
        "#### 0",
        "#### 1",
        "#### 2",
        "#### 3",
    ] and len(solved) == 1
    monkeypatch.setenv("REVS_BENCHMARKS", str(tmp_path / "part"))
    tasks, digest = integrity.benchmarks()
    assert tasks[1]["doc_to_text"](problems[3]).count("Question:") == 2
    fewer.fewer(whole, tmp_path / "again", each=2, problems=4, shots=1)
    monkeypatch.setenv("REVS_BENCHMARKS", str(tmp_path / "again"))
    assert integrity.benchmarks()[1] == digest


def test_a_part_of_a_part_that_is_as_large_is_the_same(whole, tmp_path):
    fewer.fewer(whole, tmp_path / "part", each=2, problems=4, shots=1)
    fewer.fewer(tmp_path / "part", tmp_path / "same", each=2, problems=4, shots=1)
    assert [(tmp_path / "part" / name).read_bytes() for name in fewer.FILES] == [
        (tmp_path / "same" / name).read_bytes() for name in fewer.FILES
    ]


def test_a_folder_without_a_file_is_refused_and_nothing_is_written(whole, tmp_path, monkeypatch):
    (whole / fewer.FILES[2]).unlink()
    monkeypatch.setattr("sys.argv", ["fewer", str(whole), str(tmp_path / "part")])
    with pytest.raises(
        SystemExit,
        match=r"^FileNotFoundError: There is no gsm8k/train_first200.jsonl in .*: give the folder that REVS_BENCHMARKS names\.$",
    ):
        fewer.main()
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"each": 11}, "each is 11, but a run asks from 1 to 10."),
        ({"problems": 0}, "problems is 0, but a run asks from 1 to 50."),
        ({"shots": -1}, "shots is -1, but a run asks from 0 to 5."),
    ],
)
def test_what_no_run_would_ask_is_refused(whole, tmp_path, asked, said):
    with pytest.raises(ValueError, match=said):
        fewer.fewer(whole, tmp_path / "part", **{"each": 2, "problems": 4, "shots": 1} | asked)
    assert not (tmp_path / "part").exists()


def test_the_whole_is_not_overwritten(whole, monkeypatch):
    before = [(whole / name).read_bytes() for name in fewer.FILES]
    monkeypatch.setattr("sys.argv", ["fewer", str(whole), str(whole / ".." / "whole")])
    with pytest.raises(SystemExit, match=r"is the folder itself: name another one for the part\.$"):
        fewer.main()
    assert [(whole / name).read_bytes() for name in fewer.FILES] == before


def test_the_command_has_fewer_by_itself(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fewer", str(whole), str(tmp_path / "part")])
    fewer.main()
    assert [sum(1 for _ in fewer.lines(tmp_path / "part" / name)) for name in fewer.FILES] == [
        9,
        6,
        2,
    ]
