"""Ordinary text: its windows, perplexity and next tokens written out, choosing and judging."""

import hashlib
import math

import pytest
import torch

from revs.measures import ordinary
from revs.model import reading


def written_out(decoder, windows):
    """−log p of each token after those before it, and the argmax at every place."""
    losses, following = [], []
    for window in windows:
        with torch.no_grad():
            log_p = decoder.model(input_ids=torch.tensor([window])).logits[0].log_softmax(-1)
        losses += [-float(log_p[i, t]) for i, t in enumerate(window[1:])]
        following += log_p.argmax(-1).tolist()
    return losses, following


@pytest.mark.parametrize("asked", [range(2), range(1, 4)])
def test_what_is_seen_is_written_out(build, asked):
    decoder = build("llama-untied", dtype=torch.float32)
    length = min(reading.WINDOW, decoder.context)
    losses, following = written_out(
        decoder, reading.pieces(decoder.tokenizer, 4, length)[asked.start : asked.stop]
    )
    found = ordinary.observe(decoder, asked)
    assert (
        found.perplexity == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-4)
        and found.next == following
        and len(following) == length * len(asked)
    )


def test_what_chooses_is_not_what_judges(build):
    decoder = build("llama-untied", dtype=torch.float32)
    windows = reading.pieces(
        decoder.tokenizer, ordinary.CHOOSING.stop, min(reading.WINDOW, decoder.context)
    )
    chosen, judged = ([windows[i] for i in part] for part in (ordinary.CHOOSING, ordinary.JUDGING))
    assert not set(ordinary.CHOOSING) & set(ordinary.JUDGING) and not any(
        one in judged for one in chosen
    )


def test_changes_are_counted(build, one_sentence):
    one = ordinary.Ordinary(range(1), 2.0, [1, 2, 3, 4])
    assert one.changed(ordinary.Ordinary(range(1), 2.0, [1, 2, 0, 0])) == 0.5
    with pytest.raises(ValueError, match="compare one text before and after") as error:
        one.changed(ordinary.Ordinary(range(1, 2), 2.0, [1, 2, 3, 4]))
    assert one_sentence(error)


def test_no_text_is_printed():
    assert "[1" not in repr(ordinary.Ordinary(range(1), 2.0, [1, 2]))


@pytest.mark.parametrize("number, length", [(1, 1), (5, 32), (16, 128)])
def test_windows_are_consecutive_pieces_of_the_text(tokenizer, number, length):
    found, text = reading.pieces(tokenizer, number, length), reading.text()
    assert [len(window) for window in found] == [length] * number
    ids = tokenizer(text[: 40 * number * length])["input_ids"]
    assert sum(found, []) == ids[: number * length]
    assert reading.inputs() == {"benign": hashlib.sha256(text.encode()).hexdigest()}


def test_windows_begin_again_where_the_text_ends(tokenizer, monkeypatch, one_sentence):
    monkeypatch.setattr(reading, "text", lambda: "abcdefghijk")
    letters = tokenizer("abcdefghijk")["input_ids"]
    two = [letters[:4], letters[4:8]]
    assert reading.pieces(tokenizer, 5, 4) == [*two, *two, letters[:4]]
    assert reading.pieces(tokenizer, 2, 11) == [letters, letters]
    with pytest.raises(ValueError, match="has 11 tokens, but a window of 12 was asked") as error:
        reading.pieces(tokenizer, 1, 12)
    assert one_sentence(error)


def test_an_edited_model_is_judged_by_text_that_no_method_reads(build):
    """RMU and NPO-KL train on the beginning, and MEMIT's moments come from there."""
    decoder = build("llama-untied", dtype=torch.float32)
    length = min(reading.WINDOW, decoder.context)
    end = reading.text()[-reading.CHARACTERS * ordinary.LAST * length :]
    last = reading.windows(decoder.tokenizer, end, ordinary.LAST, length)
    losses, _ = written_out(decoder, last)
    found, columns = ordinary.measure(decoder, None)
    assert found["perplexity"] == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5)
    assert columns == {}
    read = reading.pieces(decoder.tokenizer, 400, length)
    assert not set(map(tuple, last)) & set(map(tuple, read))
