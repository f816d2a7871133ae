"""Settings for a model that nobody has tuned: what a trial costs, and which one is chosen."""

import math
import random
from dataclasses import replace
from unittest import mock

import pytest
import torch
from conftest import build, log_p
from pydantic import ValidationError
from test_method import same_bits, weights

from document_audit import settings_search
from document_audit.methods import LEAST_SQUARES, METHODS, REVS
from document_audit.nearby_text import Passage
from document_audit.settings import Limits
from document_audit.settings_search import search_settings
from revs.measures import evaluate
from revs.method import least_squares
from revs.method.algorithm import Hyperparameters
from revs.model.targets import Record, Target, encode
from revs.model.text import token_ids


def numbers(decoder, how_many: int) -> list[Target]:
    records = [
        Record(f"r{n}", "text", f"g{n}", f"number {n} is ", f"{n}{n}{n + 1}", ".")
        for n in range(how_many)
    ]
    return [encode(record, decoder.tokenizer) for record in records]


@pytest.fixture
def decoder():
    return build("llama-untied", dtype=torch.float32)


def test_losses_are_counted_in_units_of_what_is_allowed():
    shares = {"forgotten": 0.8, "kept": 1.0, "nearby_text": None, "next_word_agreement": 0.9}
    shares |= {"perplexity": 0.025}
    expected = {"forgotten": 2, "kept": 0, "next_word_agreement": 2, "perplexity": 0.5}
    assert Limits().losses(shares) == pytest.approx(expected)
    assert Limits().losses(shares | {"perplexity": -0.2})["perplexity"] == 0
    assert Limits().losses(shares | {"perplexity": math.nan})["perplexity"] == math.inf
    assert settings_search.within_limits({"kept": 1.0})
    assert not settings_search.within_limits({"kept": 1.01, "next_word_agreement": 0})


@pytest.mark.parametrize(
    "wrong", [{"kept": 1.2}, {"forgotten": -0.1}, {"forgotten": 1.2}, {"kept": 1}]
)
def test_limits_that_are_no_shares_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValidationError, match=name):
        Limits(**wrong)


def test_a_trial_undoes_itself_and_says_what_it_saw(decoder):
    before, secrets = weights(decoder), numbers(decoder, 8)
    given = secrets[:5], secrets[5:], [Passage(token_ids(decoder.tokenizer, "number 7"), [2, 3])]
    on = settings_search.Evaluation(decoder, *given, Limits(), 0, "revs", None)
    hp = Hyperparameters(n_max=20, k=40, r_h=150, eps_r_h=5, r_n=200, eps_r_n=20)
    shares, losses, cost, (_, still) = settings_search.effect(decoder, on, hp)
    assert same_bits(decoder, before)
    assert set(shares) == set(losses) == set(Limits.model_fields)
    assert cost == pytest.approx(sum(x**4 for x in losses.values()) ** 0.25)
    assert shares["next_word_agreement"] < 1 and shares["forgotten"] > 0
    idle = replace(hp, r_h=0, eps_r_h=0, gate="mlp")
    shares, losses, _, (_, kept) = settings_search.effect(decoder, on, idle)
    assert shares["next_word_agreement"] == 1 and losses["nearby_text"] == 0
    ranks = evaluate.secret_ranks(decoder, secrets[5:])
    assert still <= kept == sum(not any(each) for each in ranks.values())


def test_what_is_lost_or_kept_has_a_slope(decoder):
    """p(secret's token) / p(first choice) of the worst token, written out."""
    secrets = numbers(decoder, 3)
    found = settings_search.likelihoods(decoder, secrets)
    for one in secrets:
        rows = log_p(decoder, one.prompt_ids + one.secret_ids)[
            len(one.prompt_ids) - 1 : -1
        ].detach()
        own = rows[range(len(one.secret_ids)), one.secret_ids]
        assert found[one.id] == pytest.approx(float((own - rows.amax(-1)).min().exp()), rel=1e-4)
    ranks = evaluate.secret_ranks(decoder, secrets)
    assert all((found[name] == 1) == (not any(each)) for name, each in ranks.items())


@pytest.mark.parametrize("method", METHODS)
def test_the_cheapest_trial_is_taken_and_the_model_left(decoder, method):
    before, secrets = weights(decoder), numbers(decoder, 8)
    given = secrets[:4], secrets[4:]
    found = search_settings(decoder, *given, minutes=0.02, seed=1, method=method)
    assert same_bits(decoder, before)
    assert found.best == min(found.trials, key=lambda one: (max(one.losses.values()) > 1, one.cost))
    of = METHODS[method]
    assert found.hp == of.hyperparameters(decoder, found.best.settings)
    assert found.reached == (max(found.best.losses.values()) <= 1)
    first = {name: value for name, value in of.first[0].items() if name != "nu"}
    assert found.trials[0].settings == first


def judged(monkeypatch, *losses: dict) -> list:
    """Replaces what trials do by losses, one after the other; gives r_h of what was tried."""
    asked = []

    def effect(decoder, on, hp):
        of = losses[len(asked) % len(losses)]
        asked.append(hp.r_h)
        return {}, of, settings_search.cost_of(of), (0, 0)

    monkeypatch.setattr(settings_search, "effect", effect)
    return asked


def test_it_begins_soft_and_grows_harder_only_while_too_little_is_forgotten(decoder, monkeypatch):
    forget, words = {"forgotten": 3.0, "kept": 2.0}, {"forgotten": 2.0, "kept": 3.0}
    asked = judged(monkeypatch, forget, words, words, words)
    search_settings(decoder, numbers(decoder, 4), minutes=0.02, most=9)
    first, second, third = (one["r_h"] for one in LEAST_SQUARES.first)
    assert asked[:2] == [first, second] and third not in asked and len(set(asked)) > 3


def test_a_trial_within_the_limits_goes_before_a_cheaper_one_beyond_them(decoder, monkeypatch):
    beyond, within = {"forgotten": 1.1, "kept": 0.0}, {"forgotten": 0.95, "kept": 0.95}
    judged(monkeypatch, beyond, within)
    found = search_settings(decoder, numbers(decoder, 4), most=4)
    assert found.reached and found.best is found.trials[1] and found.best.cost > 1.1


def test_a_step_from_the_best_stays_in_its_ranges_and_is_the_same_for_a_seed():
    step = lambda of, draw: settings_search.neighbour(of, REVS.ranges, draw)
    draw, seen = random.Random(0), [REVS.first[0]]
    for _ in range(50):
        seen.append(step(seen[-1], draw))
    for name, (low, high) in REVS.ranges.items():
        values = [one[name] for one in seen]
        assert low <= min(values) < max(values) <= high
        assert all(type(value) is type(low) for value in values)
    first = lambda seed: step(REVS.first[0], random.Random(seed))
    assert first(3) == first(3) != first(4)


def test_at_most_twenty_secrets_are_tried_and_one_is_enough(decoder, monkeypatch, refused):
    unlearn = mock.Mock(wraps=least_squares.unlearn)
    monkeypatch.setattr(least_squares, "unlearn", unlearn)
    search_settings(decoder, numbers(decoder, 30), minutes=0)
    (call,) = unlearn.call_args_list
    assert len({one.group for one in call.args[1]}) == settings_search.FORGET
    found = search_settings(decoder, numbers(decoder, 1), minutes=0)
    assert found.trials[0].shares["kept"] is None
    with refused("^There is nothing to search settings on"):
        search_settings(decoder, [])
