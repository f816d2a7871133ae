"""The released procedure as it is rendered: it lowers the rank to the margin, from the original neurons, and counts what it does."""

from dataclasses import replace

import oracle
import pytest
import torch
from conftest import build
from test_method import HP as PAPER
from test_method import IDS, next_tokens, same_bits, weights

from companion.runs import released
from companion.runs.released import Projection, after, change, look, unlearn_token
from revs.method.algorithm import Hyperparameters
from revs.method.edit import Edit

HP = replace(PAPER, n_max=20)
KINDS = ("llama-tied", "llama-untied", "gptj")


@pytest.fixture(params=KINDS)
def decoder(request):
    return build(request.param)


def run(decoder, hp: Hyperparameters = HP, project: Projection | None = None):
    """The edit of the most likely next token, and what it took."""
    edit, t = Edit(decoder), next_tokens(decoder, IDS, 1)[0]
    return edit, t, unlearn_token(decoder, project or Projection(decoder), IDS, t, hp, edit)


def test_the_rank_is_lowered_to_the_margin_and_undone(decoder, monkeypatch):
    """What it believes of its last trial in a layer is what a fresh pass finds there; it stops between r_h − ε and r_h + ε, or where a number comes again."""
    before, trials = weights(decoder), []  # (layer, number, ranks, next number)
    monkeypatch.setattr(
        released, "look", lambda decoder, ids, l: trials.append((l,)) or look(decoder, ids, l)
    )
    monkeypatch.setattr(
        released,
        "after",
        lambda *arguments: (
            trials.append((trials[-1][0], *arguments[:3], after(*arguments))) or trials[-1][-1]
        ),
    )
    edit, t, counts = run(decoder, replace(HP, eps_r_h=70))
    with torch.no_grad():
        project = oracle.Projection(decoder)
        found = [oracle.ranks(decoder, project, IDS, t, l) for l in edit.layers]
    ends = [last for last in {trial[0]: trial for trial in trials}.values() if len(last) > 1]
    assert [
        (l, len(edit.originals[l]), r["mlp"], r["residual"]) for l, r in zip(edit.layers, found)
    ] == [last[:4] for last in ends]
    assert counts.layers == len(ends) and counts.trials == sum(len(trial) > 1 for trial in trials)
    assert any(
        then is None and 30 <= min(r.values()) <= max(r.values()) <= 170
        for r, (*_, then) in zip(found, ends)
    )
    assert next_tokens(decoder, IDS, 1)[0] != t
    edit.undo()
    assert same_bits(decoder, before)


def test_the_counts_are_what_hooks_count(decoder):
    """Forwards of the model, vectors through the head, and nothing else goes through it: a whole pass takes its own texts' tokens there."""
    seen = {"forwards": 0, "vectors": 0}
    project, back = Projection(decoder), []
    project.back = lambda v, n: back.append(len(v)) or Projection.back(project, v, n)
    handles = [
        decoder.model.register_forward_hook(lambda *_: seen.update(forwards=seen["forwards"] + 1)),
        decoder.head.register_forward_hook(
            lambda _module, inputs, _output: seen.update(
                vectors=seen["vectors"] + inputs[0].shape[:-1].numel()
            )
        ),
    ]
    _, _, counts = run(decoder, project=project)
    for handle in handles:
        handle.remove()
    assert (
        counts.forwards == len(decoder.layers) and seen["forwards"] == 1 + counts.forwards
    )  # one to choose t
    assert counts.projections == seen["vectors"] - len(IDS) * seen["forwards"]
    assert (counts.returns, counts.steps) == (
        sum(back),
        len(back),
    ) and counts.steps >= counts.trials >= counts.layers > 0
    candidates, looks = HP.k * counts.layers, 2 * (counts.forwards + counts.trials)
    tried = counts.projections - candidates - looks - counts.returns  # once each, before Alg. 2
    assert tried >= released.FIRST * counts.layers


@torch.no_grad()
def test_neurons_side_by_side_are_each_alone(decoder):
    """Alg. 2 for many neurons at once is Alg. 2 for each, from its original; all of them wait for the slowest."""
    t, project, plain = (
        next_tokens(decoder, IDS, 1)[0],
        Projection(decoder),
        oracle.Projection(decoder),
    )
    n = decoder.neurons(1).T
    ranks = torch.tensor([oracle.rank(plain(neuron), t) for neuron in n])
    apart = [oracle.edit_neuron(plain, neuron, t, 240, 20) for neuron in n]
    reached = torch.tensor([done for _, done in apart]) & (ranks <= 260)
    together = n[reached] + change(project, n[reached], t, 220, 260)
    torch.testing.assert_close(
        together, torch.stack([n_star for n_star, _ in apart])[reached], rtol=1e-5, atol=1e-6
    )
    assert (ranks[reached] < 220).sum() > 20
    steps = []
    for some in (reached, reached | (ranks > 260)):
        project.counts.steps = 0
        change(project, n[some], t, 220, 260)
        steps.append(project.counts.steps)
    assert (
        steps[0] < released.STEPS == steps[1] and (ranks > 260).any()
    )  # a neuron beyond the upper margin never comes back


@pytest.mark.parametrize(
    "number, r_mlp, r_residual, then",
    [
        (5, 10, 99, 8),
        (8, 10, 99, 12),
        (76, 10, 10, 100),
        (100, 10, 10, 100),
        (10, 130, 100, 8),
        (2, 130, 100, 2),
        (10, 100, 10, 11),
        (10, 100, 130, 9),
        (1, 100, 130, 1),
        (10, 100, 100, None),
        (10, 80, 120, None),
    ],
)
def test_how_many_neurons_are_tried_next(number, r_mlp, r_residual, then):
    """× 1.6 and × 0.8 by FF₂'s output, ± 1 by the stream; between 80 and 120 in both it is done."""
    assert after(number, r_mlp, r_residual, 80, 120, 100) == then


def test_a_number_that_comes_again_ends_the_search(decoder, monkeypatch):
    """With a margin that no number meets, 5, 8, 12, 19 and 20 are tried, and 20 is not tried again."""
    monkeypatch.setattr(
        released, "rank", lambda v, t: torch.zeros(len(v), dtype=torch.int32)
    )  # whatever is done, t stays first
    monkeypatch.setattr(
        released, "change", lambda project, n, *_: tried.append(len(n)) or torch.zeros_like(n)
    )
    tried: list[int] = []
    _, _, counts = run(decoder)
    assert tried == [5, 8, 12, 19, 20] * 3 and counts.trials == 15


def test_low_precision_and_other_families_are_refused(one_sentence):
    for kind, dtype in (("llama-tied", torch.bfloat16), ("gemma2", torch.float32)):
        with pytest.raises(ValueError, match="released procedure needs float32") as error:
            Projection(build(kind, dtype=dtype))
        assert one_sentence(error)
