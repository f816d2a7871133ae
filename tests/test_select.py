"""Which neurons are edited: by each criterion, by zeroing, and quickly without another result."""

import copy

import pytest
import torch
from conftest import PROMPTS, secrets

from revs.method import algorithm, reference, selection, zero
from revs.method.selection import LayerState, attributions, select_neurons
from revs.method.vocabulary import Vocabulary
from revs.model.targets import pairs

IDS, T = PROMPTS[0], 33


# Gates --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("gate", algorithm.WHERE)
def test_a_gate_seen_part_by_part_is_that_of_the_full_ranks(decoder, raw, gate):
    vocabulary, V = Vocabulary(decoder, raw), decoder.head.weight.shape[0]
    answers = set()

    @torch.no_grad()
    def at_layer(l, a, h, x):
        for t in range(0, V, 60):
            r_mlp, r_residual = vocabulary.hidden(l, h[-1], x[-1], t).rank_at_rest().tolist()
            for r_h in {0, 1, 4, V // 3, r_mlp, r_mlp + 1, r_residual, r_residual + 1}:
                hp = algorithm.Hyperparameters(r_h=r_h, eps_r_h=0, gate=gate)
                seen = algorithm.gate(vocabulary, l, h[-1], x[-1], t, hp)
                answers.add((seen, algorithm.passes(r_mlp, r_residual, hp)))

    decoder.run_by_layer([3, 1, 4, 1, 5], at_layer)
    assert answers == {(True, True), (False, False)}


# Integrated gradients -----------------------------------------------------------------------------


def probability(decoder) -> torch.Tensor:
    return (
        decoder.model(input_ids=torch.tensor([IDS]), use_cache=False).logits[0, -1].softmax(-1)[T]
    )


def test_attributions_are_integrated_gradients(decoder):
    """Plainly: the whole prompt for every point of the path, and the mean gradient times a."""
    found, m = attributions(decoder, IDS, T), selection.M
    assert [a.shape for a in found] == [(64,)] * 3
    for l, attributed in enumerate(found):
        total, kept = 0, []
        for s in range(1, m + 1):

            def scale(_module, args, alpha=s / m, kept=kept):
                a = args[0][0, -1].detach()
                kept[:] = [a.clone(), (a * alpha).requires_grad_()]
                return (torch.cat([args[0][:, :-1], kept[1][None, None]], 1),)

            handle = decoder.ff2[l].register_forward_pre_hook(scale)
            total = total + torch.autograd.grad(probability(decoder), kept[1])[0]
            handle.remove()
        wanted = kept[0] * total / m
        close = {"rel": 1e-3, "abs": 1e-3 * wanted.abs().max().item()}
        assert attributed.tolist() == pytest.approx(wanted.tolist(), **close)


# Criteria -----------------------------------------------------------------------------------------


@torch.no_grad()
def selected(decoder, neurons: str, l: int) -> list[int]:
    hp = algorithm.Hyperparameters(n_max=7, k=20, neurons=neurons)
    score = attributions(decoder, IDS, T)[l] if neurons == "gradient" else None
    vocabulary, weight = Vocabulary(decoder), decoder.ff2[l].weight
    seen = LayerState(l, weight, *reference.observe(decoder, IDS, l), score)
    found, line = select_neurons(vocabulary, seen, T, hp)
    assert torch.equal(line.rank_at_rest(), vocabulary.line(weight[:, found].T, T).rank_at_rest())
    return found.tolist()


def test_neurons_are_selected_by_the_criterion_asked_for(decoder):
    """Each in its own order: by activation and rank, by one of them alone, or by gradient."""
    project = reference.Projection(decoder)
    for l in range(3):
        weight = decoder.ff2[l].weight
        with torch.no_grad():
            a = reference.observe(decoder, IDS, l)[0]
            ranks = [reference.rank(project(weight[:, j]), T) for j in range(64)]
        gradient = attributions(decoder, IDS, T)[l].tolist()
        wanted = {
            "hybrid": reference.select_neurons(project, weight, a, T, 20, 7),
            "activations": sorted(range(64), key=lambda j, a=a: -a[j])[:7],
            "rank": sorted(range(64), key=lambda j, ranks=ranks: ranks[j])[:7],
            "gradient": sorted(range(64), key=lambda j, gradient=gradient: -gradient[j])[:7],
        }
        assert {neurons: selected(decoder, neurons, l) for neurons in wanted} == wanted


@pytest.mark.parametrize("layers", ["all", [0, 2]], ids=str)
def test_zeroing_is_locating_and_silencing_written_plainly(decoder, layers):
    """Every look is a fresh pass: a layer is gated after those below it were silenced."""
    plain, hp = copy.deepcopy(decoder), zero.Hyperparameters(3, 20, 100, 10, layers)
    located, wanted = hp.located(), {}
    for ids, t in pairs(secrets(decoder)):
        project = reference.Projection(plain)
        for l in range(3) if layers == "all" else layers:
            weight = plain.ff2[l].weight
            with torch.no_grad():
                a, h, x = reference.observe(plain, ids, l)
                if reference.rank(project(h), t) >= 110 or reference.rank(project(x), t) >= 90:
                    continue
                ranked = reference.select_neurons(project, weight, a, t, located.k, located.k)
                chosen = [n for n in ranked if weight[:, n].any()][:3]
                weight[:, chosen] = 0
            wanted.setdefault(l, set()).update(chosen)
    edit = zero.unlearn(decoder, secrets(copy.deepcopy(decoder)), hp)
    assert {l: set(kept) for l, kept in edit.originals.items()} == wanted and wanted
    for l in edit.originals:
        assert torch.equal(decoder.ff2[l].weight, plain.ff2[l].weight)
