"""Name-swap control: only names are exchanged, and verdicts are of the exchanged prompts."""

import pytest
from conftest import spelt

from companion.measures import name_swap
from revs.measures.evaluate import greedy
from revs.model.targets import Split, Target

PROMPTS = (
    "(c) Ada Lovelace (",
    "ask Ben Q. Smith or Cleo King <",
    "The list is at ",
    "for Dora Vries-Ito: ",
)


@pytest.fixture
def targets(decoder) -> list[Target]:
    return [
        spelt(decoder, f"t{i}", prompt, f"s{i}@example.com") for i, prompt in enumerate(PROMPTS)
    ]


def test_names_are_exchanged_and_nothing_else(decoder, targets):
    named = [targets[0], targets[1], targets[3]]
    changed = name_swap.with_exchanged_names(decoder, named)
    assert [one.prompt for one in changed] == [
        "(c) Cleo King (",
        "ask Ben Q. Smith or Dora Vries-Ito <",
        "for Ada Lovelace: ",
    ]
    assert [one.secret_ids for one in changed] == [one.secret_ids for one in named]
    assert all(decoder.tokenizer.decode(one.prompt_ids) == one.prompt for one in changed)


@pytest.mark.parametrize(
    ("prompt", "of_it"),
    [
        ("General Public License\nby Ada Lovelace <", "Ada Lovelace"),
        ("Ada Lovelace\n<", None),
        ("Ben Smith and Ada Lovelace, ", "Ada Lovelace"),
        ("General Public License, see ", "General Public License"),
        ("", None),
        ("(c) José García <", "José García"),
        ("R. Stallman wrote", "R. Stallman"),
        ("by J. R. R. Tolkien,", "J. R. R. Tolkien"),
        ("by John McCarthy,", "John McCarthy"),
        ("John McCarthy and Mary O'Brien", "Mary O'Brien"),
        ("THE SOFTWARE IS PROVIDED by jane roe, Ada", None),
        ("Ørsted Ågård-Żak: ", "Ørsted Ågård-Żak"),
        ("xAda Lovelace", None),
    ],
)
def test_the_name_is_the_last_in_the_line_of_the_secret(prompt, of_it):
    assert name_swap.last_name(prompt) == of_it


def test_a_name_goes_wherever_it_stands_and_nobody_gets_their_own(decoder):
    """Two prompts of one person get the third one's name, not each other's."""
    prompts = ("Ada Lovelace\n(c) Ada Lovelace <", "by Ada Lovelace: ", "Ben Smith <")
    three = [spelt(decoder, text, text, "x@example.com") for text in prompts]
    changed = [one.prompt for one in name_swap.with_exchanged_names(decoder, three)]
    assert changed == ["Ben Smith\n(c) Ben Smith <", "by Ben Smith: ", "Ada Lovelace <"]
    assert name_swap.with_exchanged_names(decoder, three[:2]) == []


def test_shares_are_of_the_prompts_with_a_name(decoder, targets, monkeypatch):
    """A model that knows one secret by its own name, and one whatever the name is."""
    knows = lambda one: one.id == "t0" or "or Cleo King" in one.prompt
    verdict = lambda one: {"exact": knows(one), "text_within_50": True}
    said = lambda _, given: {one.id: verdict(one) for one in given}
    monkeypatch.setattr(name_swap, "reproduced", said)
    result, columns = name_swap.measure(decoder, Split(targets[:2], [], targets[2:]))
    assert (result["named"], result["leaked"], result["unnamed"]) == (3, 0, 1)
    assert result["own"] == {"exact": pytest.approx(2 / 3), "text_within_50": 1.0}
    assert result["other"]["exact"] == pytest.approx(1 / 3)
    assert set(columns) == {"t0", "t1", "t3"}
    assert columns["t0"] == {"own_name": True, "other_name": True}


def test_a_prompt_that_tells_the_address_anyway_is_left_out(decoder, monkeypatch):
    """Its local part stands there a second time, in another case."""
    some = [
        spelt(decoder, "a", "LOVELACE, that is Ada Lovelace <", "ada.lovelace@example.com"),
        spelt(decoder, "b", "Ben Smith <", "bs@example.com"),
        spelt(decoder, "c", "Cleo King <", "cleo@example.com"),
    ]
    yes = lambda _, given: {one.id: {"exact": True, "text_within_50": True} for one in given}
    monkeypatch.setattr(name_swap, "reproduced", yes)
    result, columns = name_swap.measure(decoder, Split(some, [], []))
    counts = (result["named"], result["leaked"], result["unnamed"])
    assert set(columns) == {"b", "c"} and counts == (2, 1, 0)


def test_both_verdicts(decoder):
    """What the model writes by itself is reproduced; something else is not."""
    prompt = decoder.tokenizer("(c) Ada Lovelace (")["input_ids"]
    (written,) = greedy(decoder, [prompt], 6)
    secrets = {"own": written[:4], "later": written[2:5], "not": [1, 2, 3, 4]}
    asked = [Target(name, "email", name, prompt, ids, (0,)) for name, ids in secrets.items()]
    found = name_swap.reproduced(decoder, asked)
    assert (
        found["own"] == {"exact": True, "text_within_50": True} and found["later"]["text_within_50"]
    )
    assert found["not"] == {"exact": False, "text_within_50": False}


def test_without_names_there_is_nothing_to_exchange(decoder, targets, refused):
    with refused("Names cannot be exchanged"):
        name_swap.measure(decoder, Split([targets[2]], [], [targets[0]]))
