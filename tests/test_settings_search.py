"""Settings for a model that nobody has tuned: what a trial costs, and which one is chosen."""

import math
from dataclasses import replace

import pytest
import torch
from conftest import build
from test_method import same_bits, weights

from document_audit import nearby_text, settings_search
from document_audit.nearby_text import Passage
from document_audit.settings_search import Limits, settings
from revs.measures import evaluate, general_text
from revs.method.algorithm import Hyperparameters
from revs.method.selection import mean_activation
from revs.model.targets import Record, Target, encode


def numbers(decoder, how_many: int) -> list[Target]:
    records = [
        Record(f"r{n}", "text", f"g{n}", f"number {n} is ", f"{n}{n}{n + 1}", ".")
        for n in range(how_many)
    ]
    return [encode(record, decoder.tokenizer) for record in records]


@pytest.fixture
def decoder():
    return build("llama-untied", dtype=torch.float32)


def judged(decoder, forget, retain, **limits) -> settings_search.Judge:
    some = [Passage(decoder.tokenizer("number 7 is here")["input_ids"], [2, 3])]
    now = general_text.predictions(decoder, range(2)), nearby_text.following(decoder, some)
    return settings_search.Judge(
        forget, retain, some, Limits(**limits), *now, mean_activation(decoder)
    )


def test_losses_are_counted_in_units_of_what_is_allowed():
    seen = {"forgotten": 0.8, "kept": 1.0, "near": None, "words": 0.9, "perplexity": 0.025}
    losses = Limits().losses(seen)
    assert losses == pytest.approx({"forgotten": 2, "kept": 0, "words": 2, "perplexity": 0.5})
    assert Limits().losses(seen | {"perplexity": -0.2})["perplexity"] == 0
    assert Limits().losses(seen | {"perplexity": math.nan})["perplexity"] == math.inf
    assert settings_search.within({"kept": 1.0}) and not settings_search.within(
        {"kept": 1.01, "words": 0}
    )


@pytest.mark.parametrize("wrong", [{"kept": 1.2}, {"words": -0.1}, {"forgotten": 1}])
def test_limits_that_are_no_shares_are_refused(wrong, one_sentence):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"^{name} is .* must be a share") as error:
        Limits(**wrong)
    assert one_sentence(error)


def test_a_trial_undoes_itself_and_says_what_it_saw(decoder):
    """A few secrets first; all only if these cost less than the best."""
    before, secrets = weights(decoder), numbers(decoder, 8)
    judge = judged(decoder, secrets[:5], secrets[5:])
    hp = Hyperparameters(n_max=20, k=40, r_h=150, eps_r_h=5, r_n=200, eps_r_n=20)
    found = settings_search.effect(decoder, judge, hp)
    assert same_bits(decoder, before) and found["whole"]
    assert set(found["seen"]) == set(found["losses"]) == set(vars(Limits()))
    assert found["cost"] == pytest.approx(sum(x**4 for x in found["losses"].values()) ** 0.25)
    assert found["seen"]["words"] < 1 and found["seen"]["forgotten"] > 0
    early = settings_search.effect(decoder, judge, hp, best=(False, 1e-9))
    assert not early["whole"] and same_bits(decoder, before)
    within = replace(judge, limits=Limits(0, 0, 0, 0, 1e9))
    assert settings_search.effect(decoder, within, hp, best=(True, 1e-9))[
        "whole"
    ]  # the first of these
    assert not settings_search.effect(decoder, within, hp, best=(False, 1e-9))["whole"]
    nothing = settings_search.effect(decoder, judge, replace(hp, r_h=0, eps_r_h=0, gate="mlp"))
    assert nothing["seen"]["words"] == 1 and nothing["losses"]["near"] == 0
    # what is not forgotten at all is not tried on all
    assert nothing["whole"] == (nothing["losses"]["forgotten"] <= settings_search.HOPELESS)


def test_what_is_lost_or_kept_has_a_slope(decoder):
    """p(secret's token) / p(first choice) of the worst token, written out."""
    secrets = numbers(decoder, 3)
    found = settings_search.likelihoods(decoder, secrets)
    for one in secrets:
        ids = torch.tensor([one.prompt_ids + one.secret_ids])
        logits = decoder.model(input_ids=ids).logits[0].float().log_softmax(-1)
        rows = logits[len(one.prompt_ids) - 1 : -1]
        own = rows[range(len(one.secret_ids)), one.secret_ids]
        assert found[one.id] == pytest.approx(float((own - rows.amax(-1)).min().exp()), rel=1e-4)
    ranks = evaluate.secret_ranks(decoder, secrets)
    assert all((found[name] == 1) == (not any(each)) for name, each in ranks.items())


def test_the_cheapest_whole_trial_is_taken_and_the_model_left(decoder):
    before, secrets = weights(decoder), numbers(decoder, 8)
    found = settings_search.calibrate(decoder, secrets[:4], secrets[4:], minutes=0.05, seed=1)
    assert same_bits(decoder, before)
    (chosen,) = [one for one in found.tried if one.get("chosen")]
    whole = [one for one in found.tried if one["whole"]]
    rank = lambda one: (max(one["losses"].values()) > 1, one["cost"])
    assert chosen == min(whole or found.tried, key=rank)
    assert found.hp == settings(64, chosen["setting"], {})
    assert found.reached == (chosen["whole"] and max(chosen["losses"].values()) <= 1)
    assert {name: found.tried[0]["setting"][name] for name in ("r_h", "ridge")} == {
        "r_h": 0.02,
        "ridge": 1.0,
    }


def test_it_begins_soft_and_grows_harder_only_while_forgetting_is_wanting(decoder, monkeypatch):
    asked = []

    def effect(decoder, judge, hp, best):
        asked.append(hp.r_h)
        worst = "words" if hp.r_h == 0.06 else "forgotten"
        losses = {"forgotten": 2.0, "words": 2.0} | {worst: 3.0}
        return {"seen": {}, "losses": losses, "cost": 3.0, "whole": True}

    monkeypatch.setattr(settings_search, "effect", effect)
    settings_search.calibrate(decoder, numbers(decoder, 4), minutes=0.02)
    assert asked[:2] == [0.02, 0.06] and 0.18 not in asked[:3] and len(asked) > 3


def test_a_trial_within_the_limits_goes_before_a_cheaper_one_beyond_them(decoder, monkeypatch):
    seen = []

    def effect(decoder, judge, hp, best):
        losses = [{"forgotten": 1.1, "words": 0.0}, {"forgotten": 0.95, "words": 0.95}][
            len(seen) % 2
        ]
        seen.append(best)
        return {
            "seen": {},
            "losses": losses,
            "cost": settings_search.together(losses),
            "whole": True,
        }

    monkeypatch.setattr(settings_search, "effect", effect)
    found = settings_search.calibrate(decoder, numbers(decoder, 4), most=4)
    assert found.reached and found.tried[1]["chosen"] and found.tried[1]["cost"] > 1.1
    assert [beyond for beyond, _ in seen] == [True, True, False, False]


def test_what_is_held_is_in_every_trial_and_nothing_is_searched_where_all_is(decoder):
    held = {"ridge": 0.0, "n_max": 4, "k": 9, "neurons": "hybrid"}
    found = settings_search.calibrate(decoder, numbers(decoder, 3), minutes=0, held=held)
    assert found.hp.ridge == 0 and (found.hp.n_max, found.hp.k) == (4, 9)
    assert found.hp.neurons == "hybrid" and set(found.tried[0]["setting"]) == {"r_h", "r_n"}
    whole = held | {"r_h": 0.02, "r_n": 0.8}
    assert (
        len(settings_search.calibrate(decoder, numbers(decoder, 3), minutes=9, held=whole).tried)
        == 1
    )


def test_at_most_twenty_secrets_are_tried_and_one_is_enough(decoder, monkeypatch, one_sentence):
    unlearned = []

    def unlearn(decoder, targets, hp, *rest, **more):
        unlearned.append({one.group for one in targets})
        return original(decoder, targets, hp, *rest, **more)

    original = settings_search.method.unlearn
    monkeypatch.setattr(settings_search.method, "unlearn", unlearn)
    settings_search.calibrate(decoder, numbers(decoder, 30), minutes=0)
    assert list(map(len, unlearned)) == [
        settings_search.FEW,
        settings_search.FORGET - settings_search.FEW,
    ]
    found = settings_search.calibrate(decoder, numbers(decoder, 1), minutes=0)
    assert found.tried[0]["whole"] and found.tried[0]["seen"]["kept"] is None
    with pytest.raises(ValueError, match="^There is nothing to calibrate on") as error:
        settings_search.calibrate(decoder, [])
    assert one_sentence(error)
