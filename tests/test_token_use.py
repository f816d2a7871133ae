"""Token use elsewhere and near secrets: both tell a ban on tokens from an edit of secrets."""

import pytest
import torch

from companion.measures import near_secrets, token_use
from revs.model.targets import Split, Target


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(token_use, "general_text", lambda: "In 1867 we were there, 7 or 8 of us.")


def target(name: str, prompt: list[int], secret: list[int]) -> Target:
    return Target(name, "ssn", name, prompt, secret, (0,))


def test_frames_count_and_repeat():
    assert token_use.filled("[-2], [-1], ", "007") == "005, 006, "
    assert token_use.filled("[+2], [+1], ", "99") == "01, 00, "
    assert token_use.filled("([W]), (", "holt") == "(holt), ("


def test_a_ban_puts_the_token_last_in_other_texts(decoder, monkeypatch):
    token = decoder.tokenizer("7")["input_ids"][0]
    split = Split([target("a", [1, 2], [token])], [], [target("b", [1, 2, 3], [4])])
    result, columns = token_use.measure(decoder, split)
    assert result["tokens"] == 1 and columns == {"a": {"token_use": result["median_rank"]}}
    assert result["numbers"] is not None and result["words"] is result["innocent"] is None
    logits, last = type(decoder).logits, len(decoder.head.weight) - 1
    ban = torch.zeros(last + 1).index_fill(0, torch.tensor([token]), -torch.inf)
    monkeypatch.setattr(type(decoder), "logits", lambda self, hidden: logits(self, hidden) + ban)
    banned, _ = token_use.measure(decoder, split)
    assert banned["median_rank"] == last > result["median_rank"] and banned["first"] == 0


def test_second_secrets_are_told_apart_by_whose_they_are(decoder, monkeypatch):
    kept = [target("x-0-near", [1], [2]), target("x-1-near", [1], [3]), target("x-2", [1], [4])]
    ranks = {"x-0-near": [0], "x-1-near": [5]}
    monkeypatch.setattr(
        near_secrets, "secret_ranks", lambda _, them: {t.id: ranks[t.id] for t in them}
    )
    result, columns = near_secrets.measure(decoder, Split([target("x-0", [1], [2])], [], kept))
    assert result == {"secrets": 2, "people": 1, "forgotten": 1.0, "others": 0.0}
    assert columns == {"x-0-near": {"near": True}, "x-1-near": {"near": False}}
    with pytest.raises(ValueError, match="choose ssn-shared or emails-shared"):
        near_secrets.measure(decoder, Split([target("x-0", [1], [2])], [], kept[2:]))


@pytest.mark.parametrize("data", ["ssn-shared-main", "ssn-shared-tune"])
def test_innocent_sentences_are_those_of_the_data_set(decoder, data):
    token = decoder.tokenizer("9")["input_ids"][0]
    found = token_use.innocent(decoder, Split([target(f"{data}-007", [1], [2])], [], []), {token})
    assert found and all(one.group.startswith("ssn-shared-innocent-") for one in found)
    assert {one.group.split("-")[3] for one in found} == {data.split("-")[-1]}
    assert not token_use.innocent(decoder, Split([target("mine-7", [1], [2])], [], []), {token})
