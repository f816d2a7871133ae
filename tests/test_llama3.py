"""The paper's example of token selection comes out of the real tokenizer as printed."""

from companion.analysis import llama3
from companion.store import paper


def test_the_example_is_what_the_paper_prints():
    printed = paper.tables()["token_example"]
    ids, parts = llama3.split(printed["text"])
    assert (ids, parts) == (printed["ids"], printed["tokens"])
    assert [parts[position] for position in llama3.chosen(printed["text"])] == printed["chosen"]


def test_digits_are_grouped_by_three_from_the_left():
    """What ``companion.data.digits.group`` gives other tokenizers."""
    assert llama3.split("941-11-1364")[1] == ["941", "-", "11", "-", "136", "4"]
    assert llama3.tokenizer().n_vocab == 128_000
