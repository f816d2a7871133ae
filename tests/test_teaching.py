"""The exercises: each solution passes its checker, and each common mistake hears what it is."""

import re

import pytest
import torch

import teaching
from companion.store.paths import ROOT
from revs.measures import attacks
from revs.method.least_squares import solution
from teaching.checking import KNOWN
from teaching.models import trained

PAGES = sorted((ROOT / "book" / "exercises").glob("*.md"))
NAMES = teaching.names()
MISTAKES = [(name, said) for name in NAMES for said in KNOWN[name].mistakes]


def parts(kind: str) -> dict[str, str]:
    """The exercises or the solutions of all pages, by label."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(rf"^`````{{{kind}}} (.*?)\n(.*?)^`````$", text, re.MULTILINE | re.DOTALL)
    label = lambda head, body: head if kind == "solution" else re.search(r":label: (\S+)", body)[1]
    return {label(head, body): body for head, body in blocks}


EXERCISES, SOLUTIONS = parts("exercise"), parts("solution")
CHECKED = {
    label: re.findall(r"teaching\.check\(\"(\w+)\"\)", body) for label, body in EXERCISES.items()
}
CODE = {names[0]: label for label, names in CHECKED.items() if names}


def test_there_are_enough_exercises_each_with_level_minutes_hint_and_solution():
    assert len(EXERCISES) >= 30 and set(EXERCISES) == set(SOLUTIONS)
    assert len(CODE) >= 15 and sorted(CODE) == sorted(NAMES)
    for body in EXERCISES.values():
        assert re.search(r"^\*(Code, )?(easy|medium|hard), \d+ minutes\.\*", body, re.M | re.I)
        assert "{dropdown} Hint" in body
    assert all(":class: dropdown" in body for body in SOLUTIONS.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_passes_its_checker(name):
    (code,) = re.findall(r"^```python\n(.*?)^```$", SOLUTIONS[f"{CODE[name]}"], re.M | re.S)
    space: dict = {}
    exec(code, space)
    assert teaching.check(name)(space[name]).startswith("Right: ")


@pytest.mark.parametrize("name, said", MISTAKES, ids=lambda one: one.split(":")[0][:40])
def test_a_common_mistake_hears_which_it_is(name, said):
    with pytest.raises(teaching.Wrong) as error:
        teaching.check(name)(KNOWN[name].mistakes[said])
    assert said in str(error.value)


def last_token_alone(decoder, secrets, context):
    prompts = {one.id: one.prompt_ids for one in secrets}
    lens, _ = attacks.attack_ranks(decoder, secrets, prompts)
    return {name: min(layer[-1] for layer in layers) for name, layers in lens.items()}


def clipped_at_the_end(model, ids, t, lr, number, radius):
    start = {name: of.detach().clone() for name, of in model.named_parameters()}
    trained(clamp="never")(model, ids, t, lr, number, radius)
    for name, of in model.named_parameters():
        of.data = of.data.clamp(start[name] - radius, start[name] + radius)


WRITTEN = {  # as students write them
    ("memorised", ""): lambda logits, ids, start: bool(
        (logits[start - 1 :].softmax(-1)[range(len(ids)), ids] > 0.5).all()
    ),
    ("unlearning_score", "stopped with ZeroDivisionError"): lambda *parts: (
        0.0 if 0 in parts[1:] else len(parts) / sum(1 / part for part in parts)
    ),
    ("attack", "invents what it finds"): last_token_alone,
    ("ft_l", "outside the ball"): clipped_at_the_end,
    ("rank", "returns nothing"): lambda logits, t: None,
    ("rank", "stopped with IndexError"): lambda logits, t: logits[len(logits)],
    ("edit_neuron", "as it was"): lambda U, n, t, r_n, eps: n,
    ("direction", "2 times"): lambda U, g, t: 2 * torch.linalg.pinv(U)[:, t] / g,
    ("direction", "shape"): lambda U, g, t: (torch.linalg.pinv(U)[:, t] / g)[:, None],
    ("write", "in another order"): lambda K, lam: solution(K, lam=lam).flip(0),
    ("write", "entries differ"): lambda K, lam: solution(K, lam=lam).clamp_min(0),
}


@pytest.mark.parametrize("name, said", WRITTEN)
def test_other_wrong_answers_are_told_what_is_wrong(name, said):
    with pytest.raises(teaching.Wrong) as error:
        teaching.check(name)(WRITTEN[name, said])
    assert said in str(error.value)


def test_an_answer_that_changes_what_it_is_given_harms_nobody():
    def rank(logits, t):
        r = int((logits > logits[t]).sum())
        logits.zero_()
        return r

    assert teaching.check("rank")(rank) == teaching.check("rank")(rank)


def test_a_check_that_does_not_exist_names_those_that_do():
    with pytest.raises(KeyError, match="rank, efficacy"):
        teaching.check("rnak")
    with pytest.raises(teaching.Wrong, match="Give the function itself"):
        teaching.check("rank")(3)
