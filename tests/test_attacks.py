"""Extraction attacks (§4.4.3) against the same written plainly: a prompt, a layer, a token."""

import pytest
import torch
from conftest import spelt

from revs.measures import attacks
from revs.measures.metrics import score
from revs.method import reference
from revs.model.targets import Split, Target

K = 20


def secrets(decoder) -> list[Target]:
    """Secrets of different lengths, with two, one and three target tokens, some far apart."""
    return [
        spelt(decoder, "s0", "The number is ", "941-14-8265", (0, 4)),
        spelt(decoder, "s1", "Write to ", "ada", (1,)),
        spelt(decoder, "s2", "She said that it was ", "zebra crossing", (0, 3, 13)),
    ]


@torch.no_grad()
def plainly(decoder, target: Target, prompt_ids: list[int]):
    """Depths of one secret for Logit-Lens and Delta, by a full pass for each token and layer."""
    lens, delta = [[] for _ in decoder.layers], [[] for _ in decoder.layers[1:]]
    for position in target.T:
        t, ids = target.secret_ids[position], prompt_ids + target.secret_ids[:position]
        streams = [reference.observe(decoder, ids, l)[2] for l in range(len(decoder.layers))]
        v = [decoder.head(decoder.norm(x)) for x in streams]
        for l, logits in enumerate(v):
            lens[l].append(min(reference.rank(logits, t), reference.rank(-logits, t)))
            if l:
                delta[l - 1].append(reference.rank((logits - v[l - 1]).abs(), t))
    return lens, delta


def test_ranks_are_those_of_one_prompt_at_a_time(decoder):
    """Batches, padding and one pass for all tokens of a secret change nothing; perturbation reads
    the perturbed prompt."""
    targets = secrets(decoder)
    result, columns = attacks.measure(decoder, Split(targets, [], targets), K)
    for target in targets:
        changed = attacks.perturb(target.prompt, target.id)
        ids = decoder.tokenizer(changed)["input_ids"]
        assert columns[target.id]["perturbation"] == plainly(decoder, target, ids)[0]
        assert (columns[target.id]["logit_lens"], columns[target.id]["delta"]) == plainly(
            decoder, target, target.prompt_ids
        )
    assert not any(layer._forward_hooks for layer in decoder.layers)
    last = [max(score(r, K) for r in columns[target.id]["perturbation"][-1]) for target in targets]
    assert result["black_box"] == pytest.approx(sum(last) / 3)


@pytest.mark.parametrize("name", attacks.STRATEGIES)
def test_a_prompt_is_changed_as_the_strategy_says(name):
    characters, number, behind = strategy = attacks.STRATEGIES[name]
    prompt = "0123456789" * 4
    changed = attacks.perturb(prompt, "seed", *strategy)
    assert len(changed) == len(prompt) + number + len(behind) and changed.endswith(behind)
    assert "".join(c for c in changed if c.isdigit()) == prompt
    assert set(changed) - set(prompt) <= set(characters + behind)
    assert changed == attacks.perturb(prompt, "seed", *strategy)
    assert not number or changed != attacks.perturb(prompt, "other", *strategy)
    assert attacks.perturb("ab", "s") == " a b "


def test_the_papers_strategy_is_the_attack(decoder):
    """Where the same places are drawn, the numbers are those of the attack."""
    split, readings = Split(secrets(decoder), [], []), ("released", "per_example")
    result, columns = attacks.perturbations(decoder, split, K)
    attacked, _ = attacks.measure(decoder, split, K)
    of = lambda attack: {reading: attacked[attack][reading] for reading in readings}
    assert result["10 spaces, one behind"] == pytest.approx(of("perturbation"))
    assert result["none"] == pytest.approx(of("logit_lens"))
    assert set(result) == set(attacks.STRATEGIES) and columns == {}


def test_the_four_readings_by_hand():
    """Two secrets of two tokens in two layers; k = 10: depth 10 is safe and depth 0 is found."""
    a, b = [[0, 10], [10, 0]], [[5, 5], [10, 10]]
    c = [[0, 10], [0, 10]]  # its second token is safe in all layers
    half = pytest.approx(0.5 / 2)  # each token of a is found in one of the layers
    assert attacks.per_example([a, b], 10) == pytest.approx((1.0 + 0.5) / 2)
    assert attacks.union([a, b], 10) == attacks.token_wise([a, b], 10) == half
    assert attacks.released([a, b], 10) == pytest.approx(min((1.0 + 0.5) / 2, (1.0 + 1.0) / 2))
    assert attacks.released_delta([a, b], 10) == pytest.approx(min(0.5, 0.75))
    assert attacks.union([c], 10) == attacks.per_example([c], 10) == 1.0
    assert attacks.token_wise([c], 10) == 0.0
