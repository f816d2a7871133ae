"""A pass for each token and attack finds what a few batches find."""

import torch
from test_attacks import K, secrets

from companion.runs import released_attacks
from revs.measures import attacks, evaluate
from revs.model.data import Split


def test_singly_and_in_batches_the_same_is_found(decoder):
    """Ranks, all depths and what is written; and as many whole passes as there are tokens and attacks."""
    targets, passes = secrets(decoder), []
    split = Split(targets[:2], targets[2:], targets)
    handle = decoder.model.register_forward_hook(lambda *_: passes.append(1))
    written = evaluate.continuations(decoder, split.retain)
    generating = len(passes)
    ranks, found, same = released_attacks.measure(decoder, split)
    handle.remove()
    tokens = [sum(len(target.T) for target in part) for part in (split.forget, split.unseen)]
    assert len(passes) == 2 * generating + 3 * tokens[0] + tokens[1] and same == written
    batched = evaluate.secret_ranks(decoder, targets)
    assert ranks == {
        target.id: [min(r, 299 - r) for r in (batched[target.id][i] for i in target.T)]
        for target in targets
    }
    assert {
        name: {attack: found[attack][name] for attack in attacks.ATTACKS} for name in found["delta"]
    } == attacks.measure(decoder, split, K)[1]


def test_what_a_layer_adds_is_what_its_parts_add(decoder):
    """Stream, attention and FF₂ of a layer are those of the model: attention is what is left."""
    ids = secrets(decoder)[0].prompt_ids
    before = decoder.model.get_input_embeddings()(torch.tensor(ids[-1:]))[0]
    for stream, attention, mlp in released_attacks.vectors(decoder, ids):
        torch.testing.assert_close(before + attention + mlp, stream)
        before = stream
    with torch.no_grad():
        torch.testing.assert_close(
            decoder.logits(decoder.norm(stream)),
            decoder.model(input_ids=torch.tensor([ids])).logits[0, -1].float(),
        )
