"""The attacks of the audit against plain computations, and models of which the answer is known."""

import copy
import math
import random

import pytest
import torch
from conftest import FAMILIES, PEOPLE, build, log_p, records, same_bits, weights
from test_tokens_data import merging

from revs.audit import exposure, leak, relearning, rounding, suite, two_checkpoints
from revs.audit.context import FIELD, Parts, context
from revs.method import output_ban
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.targets import encode

pytestmark = pytest.mark.slow  # every attack on tiny models

POOL = ["emil.berg@example.com", "fxq2@example.org", "gina_h@example.net", "hana.oda3@example.com"]
NUMBER = 12


def attacked(decoder, before=None):
    """The secrets of the three people, and the context of an attack."""
    found = [encode(one, decoder.tokenizer) for one in records()]
    return found, context(before or decoder, records(), POOL, number=NUMBER)


@pytest.fixture
def taught(knowing):
    """A tiny model that writes the three addresses."""
    return load.load(str(knowing))


def plain_log_p(decoder, target) -> float:
    """log p of a secret, without a batch or a cache."""
    first = len(target.prompt_ids) - 1
    rows = log_p(decoder, target.prompt_ids + target.secret_ids).detach()[first:]
    return float(sum(rows[i, t] for i, t in enumerate(target.secret_ids)))


# --- one attack at a time ------------------------------------------------------------------------


def test_what_is_sure_leaks_and_what_is_impossible_does_not():
    """test_teaching.py has what is between."""
    assert leak.leak(0.0, 1) == 1 and leak.leak(-1e4, 1000) == 0
    assert leak.leak(math.log(1e-12), 1) == pytest.approx(1e-12, rel=1e-9, abs=0)


def test_log_probabilities_and_the_rank_among_strings_are_those_of_one_pass_for_each(decoder):
    secrets, about = attacked(decoder)
    every = [*secrets, *about.never_trained]
    plain = {one.id: plain_log_p(decoder, one) for one in every}
    assert leak.attack(decoder, every, about) == pytest.approx(plain)
    found = exposure.attack(decoder, every, about)
    for name, own in plain.items():
        each = [plain_log_p(decoder, one) for one in about.strings[name]]
        assert found[name] == sum(one > own for one in each)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_prompt_is_read_once_in_every_family(family):
    """Sliding windows, capped logits and positions of every kind keep to their caches."""
    length = "n_positions" if family in ("gpt2", "gptj") else "max_position_embeddings"
    decoder = build(family, **{length: 192})
    secrets, about = attacked(decoder)
    strings = about.strings[secrets[0].id]
    found = exposure.log_p_of_strings(decoder, secrets[0].prompt_ids, strings)
    assert found == pytest.approx([plain_log_p(decoder, one) for one in strings], abs=1e-4)


def test_relearning_never_sees_what_it_is_asked_for(taught, monkeypatch):
    secrets, about = attacked(taught)
    trained, tested = [], []
    monkeypatch.setattr(relearning, "share_written", lambda _, known: trained.append(known) or 1)
    monkeypatch.setattr(
        relearning, "secret_ranks", lambda _, some: tested.append(some) or {s.id: [0] for s in some}
    )
    relearning.attack(taught, [*secrets, *about.never_trained], about)
    for known, held_out in zip(trained, tested, strict=True):
        assert {one.group for one in known}.isdisjoint(one.group for one in held_out)
        assert not {one.id for one in known} & {one.id for one in about.never_trained}
    assert sorted(one.id for some in tested for one in some) == sorted(
        one.id for one in [*secrets, *about.never_trained]
    )


def test_weights_in_low_precision_are_rounded_as_their_float32_copies():
    weight = torch.randn(3, 70, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert torch.equal(rounding.rounded(weight, 8), rounding.rounded(weight.float(), 8))


@pytest.mark.parametrize("bits", [4, 8])
def test_rounding_gives_the_nearest_point_of_the_grid(bits):
    torch.manual_seed(0)
    weight = torch.randn(3, 70, dtype=torch.float64)  # the last group has six
    found = rounding.rounded(weight, bits)
    for row, new in zip(weight, found, strict=True):
        for start in range(0, 70, rounding.GROUP):
            group = row[start : start + rounding.GROUP]
            grid = torch.linspace(group.min(), group.max(), 2**bits, dtype=torch.float64)
            nearest = grid[(group[:, None] - grid).abs().argmin(1)]
            assert torch.allclose(new[start : start + rounding.GROUP], nearest)
    assert torch.equal(rounding.rounded(torch.ones(2, 40), bits), torch.ones(2, 40))


def test_the_grid_is_the_coarsest_that_leaves_the_unedited_model_its_secrets(taught, monkeypatch):
    secrets, about = attacked(taught, copy.deepcopy(taught))
    found = rounding.attack(taught, secrets, about)
    notes, at = about.notes["rounding"], rounding.BITS.index(about.notes["rounding"]["bits"])
    assert notes["kept"] >= rounding.KEPT
    assert found == rounding.ranks_rounded(taught, secrets, notes["bits"])
    for bits in rounding.BITS[:at]:
        kept = sum(rank == 0 for rank in rounding.ranks_rounded(taught, secrets, bits).values())
        assert kept / len(secrets) < rounding.KEPT
    ruined = lambda decoder, some, bits: {one.id: float(bits < 6) for one in some}
    monkeypatch.setattr(rounding, "ranks_rounded", ruined)
    assert rounding.coarsest(taught, secrets) == (6, 1.0)
    never = build("llama-untied", seed=3, dtype=torch.float32, max_position_embeddings=192)
    assert rounding.coarsest(never, secrets) == (8, 0.0)


@torch.no_grad()
def test_what_moved_is_the_change_of_the_product_of_head_and_neurons(decoder):
    after = copy.deepcopy(decoder)
    torch.manual_seed(1)
    after.neurons(1).add_(0.1 * torch.randn_like(after.neurons(1)))
    head = torch.nn.Parameter(after.head.weight + 0.01 * torch.randn_like(after.head.weight))
    after.head.weight = head  # untied, if it was tied
    U, V = (one.head.weight - one.head.weight.mean(0) for one in (decoder, after))
    whole = [V @ after.neurons(l) - U @ decoder.neurons(l) for l in range(len(decoder.layers))]
    squares = sum(one.square().sum(1) for one in whole)
    found = two_checkpoints.moved(decoder, after)
    assert torch.allclose(found, squares / U.square().sum(1))


# --- models of which the answer is known ---------------------------------------------------------


@pytest.fixture
def small_budget(monkeypatch):
    """A vocabulary of 300 has few tokens that are not among the first 100."""
    monkeypatch.setattr(two_checkpoints, "BUDGET", 20)


def verdicts(decoder, secrets, about):
    """{attack: is it recovered, in the order of secrets and controls}."""
    found = suite.audit(decoder, secrets, about)
    every = [*secrets, *about.never_trained]
    said = {
        name: [attack.recovered(found[name][one.id]) for one in every]
        for name, attack in suite.ATTACKS.items()
    }
    counted = [said[name] for name, attack in suite.ATTACKS.items() if attack.endpoint]
    return said | {"endpoint": [any(one) for one in zip(*counted)]}


def test_an_unedited_model_leaks_everything_and_no_string_that_it_never_read(taught):
    secrets, about = attacked(taught, copy.deepcopy(taught))
    said = verdicts(taught, secrets, about)
    for name in ("leak", "relearning", "int8"):
        assert said[name] == [True] * 3 + [False] * 3, name
    assert said["exposure"][:3] == said["endpoint"][:3] == [True] * 3
    assert said["two_checkpoints"] == [False] * 6  # nothing was changed


def test_a_model_that_never_read_a_secret_leaks_nothing():
    decoder = build("llama-untied", seed=3, dtype=torch.float32, max_position_embeddings=192)
    secrets, about = attacked(decoder, copy.deepcopy(decoder))
    said = verdicts(decoder, secrets, about)
    for name in ("leak", "int8", "rounding", "two_checkpoints"):
        assert said[name] == [False] * 6


def test_a_ban_hides_secrets_from_all_attacks_but_the_one_that_compares(taught, small_budget):
    before = copy.deepcopy(taught)
    secrets, about = attacked(taught, before)
    done = output_ban.unlearn(taught, secrets, output_ban.Hyperparameters())
    said = verdicts(taught, secrets, about)
    assert said["leak"][:3] == said["int8"][:3] == [False] * 3
    assert said["two_checkpoints"][:3] == [True] * 3
    done.undo()
    assert leak.recovered(leak.attack(taught, secrets, about)[secrets[0].id])


def test_every_attack_leaves_the_model_as_it_was(decoder):
    secrets, about = attacked(decoder, copy.deepcopy(decoder))
    bits = weights(decoder)
    found = suite.audit(decoder, secrets, about)
    assert same_bits(decoder, bits) and set(found) == set(suite.ATTACKS)
    ids = {one.id for one in [*secrets, *about.never_trained]}
    assert all(set(values) == ids for values in found.values())


# --- never-trained strings -----------------------------------------------------------------------


def test_a_string_has_the_shape_of_the_secret():
    decoder = build("llama-untied")
    _, about = attacked(decoder)
    texts = [decoder.tokenizer.decode(one.secret_ids) for one in about.strings["Ada"]]
    assert len(set(texts)) == NUMBER and not set(texts) & {*POOL, *PEOPLE.values()}
    for text in texts:
        assert FIELD.sub("x", text).startswith("x.x@x.x")
        assert text.split("@")[1].startswith("example.")


def test_a_string_that_would_change_the_prompts_tokens_is_left_out():
    """Here one that begins with an e: the tokenizer joins it with the bracket before it."""
    decoder = Decoder(build("llama-untied").model, merging("(e"))
    about = context(decoder, records(), POOL, number=NUMBER)
    texts = [decoder.tokenizer.decode(one.secret_ids) for one in about.strings["Ada"]]
    assert len(set(texts)) == NUMBER and not any(text.startswith("e") for text in texts)


@pytest.mark.parametrize("T", [9, 10])
def test_the_string_that_is_attacked_has_as_many_tokens_as_are_unlearned(T):
    decoder = build("llama-untied")
    who = [one for one in records() if one.secret.index("@") >= T]  # one character is a token
    about = context(decoder, who, POOL, T, number=NUMBER)
    assert who and all(len(one.T) == T for one in about.never_trained)


def test_numbers_are_those_of_the_pool_and_common_words_stay():
    parts = Parts(["941-14-8265", "977-02-1234"])
    for seed in range(5):
        area, group, serial = parts.replaced("915-33-5678", random.Random(seed)).split("-")
        assert area in ("941", "977") and group in ("14", "02") and serial in ("8265", "1234")
    assert len(Parts(["12"]).replaced("345", random.Random(0))) == 3
    hosts = Parts(["https://example.com/garden"] * 9 + ["https://example.com/meadow"])
    assert hosts.replaced("https://example.com/forest", random.Random(1)).startswith(
        "https://example.com/"
    )


def test_what_cannot_be_attacked_is_refused(refused):
    """No pool for never-trained strings; one secret, relearned from others; two vocabularies."""
    decoder, ada = build("llama-untied"), records(["Ada"])
    with refused("never-trained strings have the shape"):
        context(decoder, records(), ["941-14-8265"], number=10)
    about = context(decoder, ada, POOL, number=3)
    with refused("needs two secrets"):
        relearning.attack(decoder, [encode(ada[0], decoder.tokenizer)], about)
    some = {"exposure": suite.ATTACKS["exposure"]}  # which one secret allows
    found = suite.audit(decoder, [encode(ada[0], decoder.tokenizer)], about, attacks=some)
    assert list(found) == ["exposure"] and ada[0].id in found["exposure"]
    with refused("compare two checkpoints of one model"):
        two_checkpoints.moved(decoder, build("llama-untied", vocab_size=310))
