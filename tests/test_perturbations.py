"""Strategies change a prompt as they say, and the paper's is the one that the attack uses."""

import pytest

from revs.measures import attacks, perturbations
from revs.model.targets import Split, Target


@pytest.mark.parametrize("name", perturbations.STRATEGIES)
def test_a_prompt_is_changed_as_the_strategy_says(name):
    characters, number, behind = perturbations.STRATEGIES[name]
    prompt = "0123456789" * 4
    changed = attacks.perturb(prompt, "seed", characters, number, behind)
    assert len(changed) == len(prompt) + number + len(behind) and changed.endswith(behind)
    assert "".join(c for c in changed if c.isdigit()) == prompt and set(changed) - set(
        prompt
    ) <= set(characters + behind)
    assert changed == attacks.perturb(prompt, "seed", characters, number, behind)
    assert attacks.perturb("ab", "s", " ", 10, "") == " a b"


def test_the_papers_strategy_is_the_attack(decoder):
    """Where the same places are drawn, the numbers are those of ``revs.measures.attacks``."""
    targets = [
        Target(
            name, "text", name, decoder.tokenizer(prompt)["input_ids"], [5, 6, 7], (0, 2), prompt
        )
        for name, prompt in (("a", "the number is kept here: "), ("b", "it is written down as "))
    ]
    result, columns = perturbations.measure(decoder, Split(targets, [], []), k=100)
    attacked, _ = attacks.measure(decoder, Split(targets, [], []), k=100)
    assert result["10 spaces, one behind"] == pytest.approx(
        {reading: attacked["perturbation"][reading] for reading in ("released", "per_example")}
    )
    assert result["none"] == pytest.approx(
        {reading: attacked["logit_lens"][reading] for reading in ("released", "per_example")}
    )
    assert set(result) == set(perturbations.STRATEGIES) and columns == {}
