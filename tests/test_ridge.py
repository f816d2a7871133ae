"""The ridge: another step than the paper's, which is not long where a scale or U is small."""

import pytest
import torch
from conftest import FAMILIES, build, same_bits, weights

from revs.measures.evaluate import ranks_by_layer
from revs.method import algorithm
from revs.method.algorithm import Hyperparameters
from revs.method.vocabulary import Vocabulary
from revs.model.targets import Target

IDS, T = [3, 1, 4, 1, 5], 23
SOME = ("llama-tied", "gptj", "gemma2", "olmo2", "glm4", "falcon")  # each way to stand to a norm


def seen_from(decoder, vocabulary, l: int) -> torch.Tensor:
    """U·D: what the logits gain from a step of a neuron of layer l (V × d)."""
    scale = torch.ones_like(vocabulary.gamma)
    if vocabulary.after[l] is not None:
        scale = vocabulary.scale_of(vocabulary.after[l])
    d = len(scale)
    centre = torch.eye(d).double() - (1 / d if vocabulary.centred else 0)
    return decoder.head.weight.detach() @ torch.diag(vocabulary.gamma) @ centre @ torch.diag(scale)


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_the_step_is_the_least_of_what_it_is_said_to_be(kind, ridge):
    """min ‖U·D·s − e_t‖² + λ·m·‖s‖², solved as least squares of a stacked matrix."""
    decoder = build(kind)
    vocabulary = Vocabulary(decoder, ridge=ridge)
    for l in (0, 2):
        UD = seen_from(decoder, vocabulary, l)
        weight = (ridge * (UD.T @ UD).diagonal().mean()).sqrt()
        stacked = torch.cat([UD, weight * torch.eye(UD.shape[1]).double()])
        wanted = torch.zeros(len(stacked), 1).double()
        wanted[T] = 1
        step = torch.linalg.lstsq(stacked, wanted).solution[:, 0]
        torch.testing.assert_close(vocabulary.step(l, T), step, rtol=1e-6, atol=1e-8)
        moved = UD @ step
        torch.testing.assert_close(vocabulary.direction(T, l)[1], moved, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", FAMILIES)
@torch.no_grad()
def test_with_a_ridge_a_rank_is_reached_in_the_model_itself(kind):
    """Where neurons were to spare, t ranks as low as asked in FF₂'s output and the stream."""
    decoder, spared = build(kind), 0
    hp = Hyperparameters(30, 30, r_h=60, eps_r_h=0, r_n=240, eps_r_n=0, ridge=0.1)
    before = weights(decoder)
    for t in decoder.model(input_ids=torch.tensor([IDS])).logits[0, -1].topk(6).indices.tolist():
        edit = algorithm.unlearn(decoder, [Target("a", "text", "a", IDS, [t], (0,))], hp)
        ranks = ranks_by_layer(decoder, Vocabulary(decoder), IDS, t)
        spare = [l for l in edit.layers if sum(layer == l for layer, *_ in edit.moves) < 30]
        assert all(r >= 60 for l in spare for r in ranks[l].tolist())
        spared += len(spare)
        edit.undo()
    assert spared and same_bits(decoder, before)


@pytest.mark.parametrize("kind", ["llama-tied", "gemma2"])
@torch.no_grad()
def test_a_scale_near_zero_makes_the_papers_step_long_and_not_the_ridges(kind):
    decoder = build(kind)
    norm = decoder.after(0) or decoder.norm
    norm.weight[3] = 1e-4 - decoder.architecture.offset
    paper, ridge = Vocabulary(decoder), Vocabulary(decoder, ridge=0.1)
    assert paper.step(0, T).norm() > 100 * ridge.step(0, T).norm()
