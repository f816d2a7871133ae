"""General text: its split and windows, perplexity, next tokens and KL written out."""

import math

import pytest
import torch
from conftest import build, log_p, weights

from revs.measures import general_text
from revs.model import text

LENGTH = 96  # of a window of the tiny models


def written_out(decoder, windows):
    """−log p of each token after those before it, and the argmax at every place."""
    found = [(log_p(decoder, window), window) for window in windows]
    losses = [-float(p[i, t]) for p, window in found for i, t in enumerate(window[1:])]
    return losses, [token for p, _ in found for token in p.argmax(-1).tolist()]


@pytest.mark.parametrize("asked", [range(2), range(1, 4)])
def test_predictions_are_those_of_one_window_at_a_time(asked):
    decoder = build("llama-untied", dtype=torch.float32)
    some = text.evaluation_windows(decoder.tokenizer, 4, LENGTH)[asked.start : asked.stop]
    losses, following = written_out(decoder, some)
    found = general_text.predictions(decoder, asked)
    assert found.perplexity == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-4)
    assert found.next == following and len(following) == LENGTH * len(asked)
    assert "[" not in repr(found)  # no text is printed


@pytest.mark.parametrize("kind", ["llama-tied", "llama-untied", "gptj"])
def test_integrity_is_perplexity_kl_and_unchanged_tokens(kind):
    """Also where the head changes with the model."""
    decoder = build(kind, dtype=torch.float32)
    before = general_text.predictions(decoder, range(2), keep=True)
    windows = text.evaluation_windows(decoder.tokenizer, 2, LENGTH)
    was = torch.cat([log_p(decoder, window) for window in windows])
    same, columns = general_text.measure(decoder, None, before=before)
    assert columns == {} and same["unchanged"] == 1 and abs(same["kl"]) < 1e-6
    assert same["perplexity"] == pytest.approx(same["perplexity_before"], rel=1e-5)
    with torch.no_grad():
        for weight in weights(decoder):
            decoder.model.get_parameter(weight).mul_(1.1)
    found, _ = general_text.measure(decoder, None, before=before)
    now = torch.cat([log_p(decoder, window) for window in windows])
    after = general_text.predictions(decoder, range(2))
    assert found["perplexity"] == pytest.approx(after.perplexity, rel=1e-5)
    assert found["perplexity_before"] == before.perplexity
    assert found["unchanged"] == pytest.approx(1 - before.share_changed(after))
    wanted = (was.exp() * (was - now)).sum(-1).mean()
    assert found["kl"] == pytest.approx(float(wanted), rel=1e-3) and found["kl"] > 0


def test_changes_are_counted(refused):
    one = general_text.Predictions(range(1), 2.0, [1, 2, 3, 4])
    assert one.share_changed(general_text.Predictions(range(1), 2.0, [1, 2, 0, 0])) == 0.5
    with refused("compare one text before and after"):
        one.share_changed(general_text.Predictions(range(1, 2), 2.0, [1, 2, 3, 4]))


def test_training_and_evaluation_and_tuning_read_different_text(tokenizer):
    """No passage is in two parts; a paragraph that its author repeats is less than a hundredth."""
    evaluated, trained = text.parts()
    assert not set(evaluated.split(text.PASSAGES)) & set(trained.split(text.PASSAGES))
    pieces = [evaluated[start : start + 512] for start in range(0, len(evaluated) - 512, 512)]
    assert len(pieces) > 200 > 100 * sum(piece in trained for piece in pieces)
    windows = text.evaluation_windows(tokenizer, general_text.TUNING.stop, text.WINDOW)
    assert len(set(map(tuple, windows))) == len(windows)  # nobody reads one again
    assert not set(general_text.TEST) & set(general_text.TUNING)
