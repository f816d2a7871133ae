"""What pages say of the recorded results in words: a number beside it is glued, a word is not."""

import re

import numpy as np
import pandas as pd

from companion.analysis import (
    abilities,
    ablations,
    audits,
    extraction,
    main_comparison,
    organic,
    recovery,
    results,
    tradeoffs,
    tuning,
)
from companion.analysis.tables import spoken_list
from companion.claims import claims
from companion.data import datasets
from companion.experiments import methods, tune
from companion.experiments.settings import FIRST
from companion.store import rows
from companion.store.paths import params

MODEL = "smollm2-135m"


def test_a_shorter_step_makes_no_difference():
    """closed_form: “runs of one method differ by more. The paper's edit is … times as large.”"""
    frame = results.measured(MODEL, "ssn")
    frame = frame[frame["tag"].str.startswith("step-") & frame["failed"].isna()]
    means = frame.groupby("ridge")[["unlearning_score", "norm"]].mean()
    score, ridges = means["unlearning_score"], means.index[means.index > 0]
    again = main_comparison.runs(MODEL, "ssn").query("method == 'revs'")["unlearning_score"]
    assert abs(score[ridges].max() - score[0]) < min(0.05, np.ptp(again))
    assert means["norm"].idxmax() == 0


def test_activation_alone_chooses_as_well_on_ssns():
    """neurons: “On SSNs “activations” and “hybrid” are level.”; “On Emails this way forgets less
    than hybrid, keeps more, and scores higher; on SSNs it forgets too little”; “*rank* changes more
    columns than *hybrid* and forgets next to nothing”"""
    shown = ablations.beside("neurons", MODEL).query("measured != 'paper, Emails'")
    shown = shown.set_index(["measured", "alternative"]).astype(float)
    ssn, emails = shown.loc["ours, SSN"], shown.loc["ours, Emails"]
    score = ssn["Unlearning Score"]
    assert abs(score["activations"] - score["hybrid"]) < 1
    apart = emails.loc["gradient"] - emails.loc["hybrid"]
    assert apart["Efficacy"] < -10 and min(apart[["Specificity", "Unlearning Score"]]) > 5
    assert ssn["Efficacy"]["gradient"] < 60
    for one in (ssn, emails):
        assert one["columns"]["rank"] > one["columns"]["hybrid"] and one["Efficacy"]["rank"] < 2


def test_single_digits_decide():
    """digits: “it takes four of the ten digits from the model”; “five of eight methods keep none of
    the other SSNs, and four of these forget all …”; “more than with any method”; “forgets all and
    keeps a quarter. Head-Projection keeps nearly all, and forgets few SSNs in other sentences …”;
    limitations: “most methods kept none …, the best of them kept three in ten”"""
    found = ablations.digit_ways(MODEL, "ssn")
    ban = found[(found["method"] == "output_ban") & (found["way"] == "digits")]
    assert [row["result"]["edit"]["weights"] for row in ban["row"]] == [4 * 576]
    single = found[(found["way"] == "digits") & ~found["method"].isin(main_comparison.CONTROLS)]
    single = single.set_index("method")
    none = single[single["specificity"] == 0]
    assert len(single) == 8 and len(none) == 5 and (none["efficacy"] == 1).sum() == 4
    assert abs(single["specificity"].max() - 0.3) < 0.02
    rise = main_comparison.measures(found.reset_index(drop=True))
    rise = rise[rise["way"] == "digits"].set_index("method")["perplexity_rise"]
    assert rise["output_ban"] > 2 * rise.drop("output_ban").max()
    best = found.groupby("way")["unlearning_score"].max()
    assert best["digits"] < best["groups"] / 2
    spared = found[found["tag"] == "digits-protect"].set_index("method")
    assert spared["efficacy"]["least_squares"] == 1
    assert abs(spared["specificity"]["least_squares"] - 1 / 4) < 0.02
    kept = spared.loc["head_projection"]
    assert kept["specificity"] > 0.95 and kept["generalization"] < 0.15


def test_zeroing_forgets_hardly_anything_and_may_lose_other_secrets():
    """zeroing: “hardly anything is forgotten. Other secrets may be lost …”"""
    runs = results.measured(MODEL, "ssn", "emails").query("method == 'zero'")
    assert len(runs) == 6 and (runs["efficacy"] < 0.1).all() and runs["specificity"].min() < 0.5


def test_a_perturbed_prompt_finds_less_than_an_unchanged_one_after_revs():
    """aggregations: “On SSN and URLs it finds less than the unchanged prompt; on Emails both find
    next to nothing.”"""
    runs = results.having(results.measured(MODEL, *methods.PAPER_DATA), "perturbations")
    left = extraction.strategies(runs).query("method == 'REVS' and aggregation == 'released'")
    found = left.pivot(index="data", columns="strategy", values="mean")
    apart = found["10 spaces, one behind"] - found["none"]
    assert list(apart.index[apart > 1]) == ["SSN", "URLs"]
    assert (found.loc["Emails", ["10 spaces, one behind", "none"]] > 99.9).all()


def test_revs_harms_the_rest_of_the_model_most():
    """integrity: “REVS raises the perplexity … most”; “On SSN RMU raises it more.”"""
    runs = main_comparison.runs(MODEL)
    rise = main_comparison.over_data_sets(runs, "perplexity_rise")
    rise = rise.drop(list(main_comparison.CONTROLS))
    assert rise.idxmax() == "revs"
    by_data = runs.groupby(["data", "method"])["perplexity_rise"].mean().unstack()
    more = by_data["rmu"] > by_data["revs"]
    assert list(more.index[more].intersection(list(methods.PAPER_DATA))) == ["ssn"]


def test_the_embedded_model_cannot_answer():
    """integrity: “… which the small model cannot answer.”"""
    before = abilities.answers(abilities.runs(MODEL, "ssn", "integrity-before")).loc["unedited"]
    for name, chance in (("mmlu", 1 / 4), ("gsm8k", 0)):
        assert before[name] - chance <= 2 * before[f"{name} error"]


def test_from_the_middle_layers_on_the_new_write_resists_and_its_score_does_not_tell():
    """write: “A write that begins in a middle layer forgets at the output *and* in the layers …”"""
    found = ablations.by_first_layer(MODEL, "ssn").set_index("first")
    middle, last = found[found.index <= 24], found[found.index >= 28]
    assert middle["resistance"].min() > 90 and last["resistance"].max() < 5
    assert found["unlearning_score"].min() > 90 and found["perplexity_rise"].max() < 3


def test_demoted_tokens_hide_an_address_from_all_attacks_but_exposure():
    """gone: “On Emails exposure finds every address after the least-squares write and most after
    REVS, and no other attack …”"""
    found = recovery.secrets(recovery.runs(MODEL, "emails"))
    own = found[(found["part"] == "forget") & found["method"].isin(["revs", "least_squares"])]
    shares = own.groupby("method")[recovery.ENDPOINT].mean().astype(float)
    exposed = shares.pop("exposure")
    assert exposed["least_squares"] == 1 and 0.6 < exposed["revs"] < 0.9
    assert shares.max(axis=None) < 0.1


def test_all_tokens_demoted_leave_exposure_as_little_as_never_trained():
    """gone: “After the least-squares write exposure finds …; in the model that never read them …”;
    “the least-squares write loses some, MEMIT more, and REVS all”"""
    table = recovery.by_tokens(MODEL, "emails").set_index(["method", "tokens"])
    gold, kept = table["exposure"]["gold", "two"], table["specificity"]
    for method in ("revs", "least_squares", "memit"):
        assert table["exposure"][method, "all"] <= gold < table["exposure"][method, "two"]
    assert kept["revs", "all"] == 0 < kept["memit", "all"] < kept["least_squares", "all"] < 1


def test_numbers_leave_a_trace_after_the_new_write():
    """gone: “no Social Security number ranks *first* … all of them rank in the first quarter …”;
    of edits from an earlier layer on: “ranks every number in the first fifth”"""
    layers = recovery.secrets(recovery.runs(MODEL, tag="layers")).query("part == 'forget'")
    assert 0 < layers["exposure_value"].max() <= 200 / 5
    found = recovery.secrets(recovery.runs(MODEL, "ssn")).query("part == 'forget'")
    ranks = found.groupby("method")["exposure_value"]
    assert 0 < ranks.min()["least_squares"] and ranks.max()["least_squares"] <= 200 / 4
    first = found.groupby("method")["exposure"].mean()
    assert 0.4 < first["revs"] < 0.6 and 0.2 < first["memit"] < 0.3
    assert first["least_squares"] == first["gold"] == 0


def test_shared_numbers_are_exposed_in_a_model_that_never_read_them():
    """gone: “… already ranks some first. After REVS exposure finds about half as many, after MEMIT,
    Head-Projection and the least-squares write none or nearly none.”; “… ranks most addresses
    first, so …”"""
    found = recovery.secrets(recovery.runs(MODEL, "ssn-shared")).query("part == 'forget'")
    share = found.groupby("method")["exposure"].mean()
    by_run = found[found["method"] == "gold"].groupby(["adapter", "split"])["exposure"].mean()
    *others, most = sorted(by_run)
    assert abs(most - 2 / 5) < 0.01 and max(others) <= 0.1
    assert 0.3 < share["revs"] / share["gold"] < 0.7
    assert share[["least_squares", "output_ban"]].max() == 0
    assert share[["memit", "head_projection"]].max() < 0.05
    names = recovery.secrets(recovery.runs(MODEL, "emails-shared")).query("part == 'forget'")
    assert names.loc[names["method"] == "gold", "exposure"].mean() > 0.8


def test_to_the_endpoint_a_ban_and_the_new_write_on_numbers_look_alike():
    """gone: “none of those behind the bars passes this check on any set”; “the least-squares write
    on SSN looks like a ban”; “Head-Projection leaves as little to the four attacks, and hides
    less than a third from an insider”"""
    share = recovery.endpoint(recovery.secrets(recovery.runs(MODEL)))
    share = share.set_index(["method", "data"])["mean"]
    assert share["output_ban"].max() < recovery.EXPOSED
    assert share["output_ban", "ssn"] == share["least_squares", "ssn"] == 0
    assert share["head_projection", "ssn"] < 0.05
    insider = main_comparison.runs(MODEL, "ssn").groupby("method")["resistance"].mean()
    assert insider["least_squares"] < insider["head_projection"] < 1 / 3
    begins = {
        method: min(params("hyperparameters")[method][MODEL]["ssn"]["layers"])
        for method in ("revs", "least_squares")
    }
    assert begins["revs"] < begins["least_squares"] - 4


def test_memit_comes_near_to_never_trained_on_addresses_alone():
    """gone: “On Emails MEMIT comes closest of the five methods to the model that never read them;
    on SSN Head-Projection and the least-squares write do.”"""
    found = recovery.secrets(recovery.runs(MODEL, "ssn", "emails"))
    excess = recovery.endpoint(found, "gold").set_index(["data", "method"])["mean"]
    excess = excess.drop(["gold", *main_comparison.CONTROLS], level="method", errors="ignore")
    assert excess["emails"].idxmin() == "memit" and excess["emails", "memit"] < 0.15
    assert set(excess["ssn"].nsmallest(2).index) == {"head_projection", "least_squares"}


def test_rivals_keep_less_where_the_page_says_so():
    """tradeoffs: “An edit of REVS that forgets more keeps less …”; “At equal forgetting it keeps
    more SSNs than FT-L and MEMIT. Of e-mails and URLs MEMIT forgets nearly all and keeps most.”;
    “MEMIT keeps fewer SSNs than REVS, and more addresses.”; “dominates FT-L on SSN and URLs, and
    not …. On SSN and URLs only two points of FT-L count.”; “nearly every weaker edit of REVS scores
    higher than the chosen one”"""
    runs = main_comparison.runs(MODEL, *methods.PAPER_DATA)
    kept = runs.groupby(["data", "method"])["specificity"].mean().unstack()
    assert list(kept.index[kept["memit"] < kept["revs"]]) == ["ssn"]
    for data in methods.PAPER_DATA:
        curves = tradeoffs.by_strength(MODEL, data)
        revs, memit = curves["revs"].sort_values("efficacy"), curves["memit"]
        assert revs["specificity"].is_monotonic_decreasing
        held, points = claims.dominates(curves)
        assert held == (data != "emails") and (points == "2 of 2 points") == held
        chosen = revs[revs["tuned"]].iloc[0]
        weaker = revs.loc[revs["knob"] < chosen["knob"], "unlearning_score"]
        better = (weaker > chosen["unlearning_score"]).sum()
        assert better < 2 if data == "ssn" else better >= len(weaker) - 1 > 3
        if data == "ssn":
            rivals = pd.concat([memit, curves["ft_l"]])
            rivals = rivals[rivals["efficacy"] >= revs["efficacy"].min()]
            line = np.interp(rivals["efficacy"], revs["efficacy"], revs["specificity"])
            assert len(rivals) > 4 and (line > rivals["specificity"] + 3).all()
        else:
            assert memit["efficacy"].min() > 94 and memit["specificity"].min() > 85


def test_a_second_split_takes_from_the_best_trials_on_numbers_alone():
    """tuning: “On SSNs the trial that was best … lost …; on Emails it gained.”"""
    data = ["ssn-tune", "emails-tune"]
    trials = tuning.trials(MODEL, *data)
    top = tuning.reevaluated(tuning.searches(MODEL, *data))
    lost = [float(tuning.answer(trials, top, one)["lost"].replace("−", "-")) for one in data]
    assert lost[0] > 1 and lost[1] < -1


def test_shared_numbers_spare_the_new_write_and_shared_names_nobody():
    """ban: “The least-squares write falls from … to …”; “No method that reaches an Efficacy …”;
    “Head-Projection scores higher …, though not after Holm's correction”; landing page: “It leads
    on SSNs that share groups …; not where addresses share names.”"""
    runs = main_comparison.runs(MODEL, "ssn", "ssn-shared")
    score = runs.groupby(["data", "method"])["unlearning_score"].mean()
    assert score["ssn"].idxmax() == "output_ban"
    assert score["ssn-shared"].idxmax() == "least_squares"
    shared = main_comparison.differences(runs[runs["data"] == "ssn-shared"], "least_squares")
    assert (shared["high"] < 0).all()
    assert score["ssn", "least_squares"] - score["ssn-shared", "least_squares"] < 0.05
    names = main_comparison.runs(MODEL, "emails-shared")
    gaps = main_comparison.differences(names, "least_squares")
    above = gaps[gaps["low"] > 0]
    assert list(above["method"]) == ["head_projection"] and (gaps["holm"].dropna() > 0.05).all()
    names = names[~names["method"].isin(main_comparison.CONTROLS)].groupby("method")
    names = names[["efficacy", "specificity", "unlearning_score"]].mean()
    assert main_comparison.place(names["unlearning_score"], "least_squares") > 1
    assert (names.loc[names["efficacy"] > 0.8, "specificity"] < 1 / 3).all()


def test_text_to_protect_helps_the_covariance_and_not_the_new_write():
    """fair: “it keeps many more of the other secrets, and forgets somewhat less. So does
    Max-Entropy, whose score stays the same. Head-Projection had kept nearly all.”; “RMU loses”; on
    Emails “only RMU changes much: it keeps most secrets and forgets few”"""
    measures = ["efficacy", "specificity", "unlearning_score"]
    spared = main_comparison.beside(MODEL, "protect")
    spared = spared.groupby(["data", "method", "tagged"])[measures]
    both = spared.mean().unstack("tagged")
    gain = both.xs(True, axis=1, level=1) - both.xs(False, axis=1, level=1)
    score, kept = gain["unlearning_score"], gain["specificity"]["ssn"]
    for method in ("memit", "max_entropy"):
        assert kept[method] > 0.2 and -0.1 < gain["efficacy"]["ssn", method] < 0
    assert score["ssn", "memit"] > 0.1 and abs(score["ssn", "max_entropy"]) < 0.005
    assert both["specificity"][False]["ssn", "head_projection"] > 0.98
    assert both["unlearning_score"][True]["ssn"].idxmax() == "least_squares"
    assert abs(score["ssn", "least_squares"]) < 0.05 and score["ssn", "rmu"] < -0.1
    assert score["emails"].idxmin() == "rmu" and score["emails"].drop("rmu").abs().max() < 0.05
    rmu = both.xs(True, axis=1, level=1).loc["emails", "rmu"]
    assert rmu["specificity"] > 0.85 and rmu["efficacy"] < 0.1


def test_three_baselines_read_longer_ends_of_prompts_by_the_second_search():
    """fair: “the last words of a prompt alone, which seldom contain a name. The second search chose
    longer ends, among other changes, and all three score higher”"""
    first = main_comparison.runs(MODEL, "ssn", tag=FIRST).groupby("method")
    usual = first["unlearning_score"].mean()
    now = main_comparison.runs(MODEL, "ssn").groupby("method")
    for method in ("memit", "max_entropy", "head_projection"):
        assert now["unlearning_score"].mean()[method] > usual[method]
        assert first["n_max_len"].max()[method] <= 25 < now["n_max_len"].min()[method]
    ends = [record.prompt[-25:].partition(" ")[2] for record in datasets.read("ssn")]
    named = [re.search(r"\b(?!Social|Security|Number|SSN)[A-Z][a-z]+", end) for end in ends]
    assert sum(map(bool, named)) < 0.1 * len(ends)


def test_no_baseline_tried_a_drawn_setting():
    """fair: “no baseline tried anything but the paper's settings and those of earlier searches”;
    “above most layers that its loss reads”; tuning: “For every baseline these filled its trials”"""
    first = tuning.searches(MODEL, "ssn-tune", "emails-tune")
    for one in first[first["method"] != "least_squares"].itertuples():
        known = tune.printed_settings(one.method, 30, "SSN")
        known += tune.recorded_starts(one.method, one.data)
        assert one.result["trials"] <= len(known)
    chosen = main_comparison.runs(MODEL, "ssn", tag=FIRST).query("method == 'max_entropy'")
    for run in chosen["row"]:
        last = max(run["settings"]["hyperparameters"]["layers"])
        assert last - 15 > (30 - 15) / 2  # the lens reads the upper half of 30 layers


def test_the_second_searches_find_better_settings_for_every_method_of_the_paper():
    """tuning: “every method is searched again”, “finds settings that reach more … for …”;
    limitations: “better settings of each of them, and of REVS”"""
    both = tuning.both_searches(MODEL, "emails-tune", "ssn-tune")
    assert both.notna().all(axis=None) and len(both) == 8
    gained = tuning.gained(both, emails="emails-tune", ssn="ssn-tune")
    for data, some in (
        ("emails", ["ft_l", "rmu", "npo_kl", "revs"]),
        ("ssn", ["memit", "max_entropy", "head_projection", "npo_kl", "revs"]),
    ):
        assert gained[data] == spoken_list(
            [methods.title(name) for name in both.index if name in some]
        )


def test_what_the_paper_found_and_what_also_holds_here():
    """landing page: “In the paper it ranks first.”; core: “both put REVS first”; fair: “along the
    directions of random tokens, and forgets almost nothing”; gptj: “Of the paper's methods REVS
    scores and resists most”; memorised: “On links REVS has the highest Unlearning Score, on
    addresses Max-Entropy.”"""
    printed = results.printed().query("metric == 'Unlearning Score'")
    for _, some in printed.groupby(["measured", "data"], observed=True):
        assert some.loc[some["mean"].idxmax(), "method"] == "REVS"
    runs = main_comparison.runs(MODEL, "ssn", "emails").query("method == 'other_tokens'")
    assert len(runs) and runs.groupby("data")["efficacy"].mean().max() < 0.05
    small = main_comparison.runs("gptj-small", "ssn").groupby("method")
    for column in ("unlearning_score", "resistance"):
        means = small[column].mean()
        assert means[methods.paper_methods()].idxmax() == "revs"
    runs = organic.runs("qwen2.5-coder-1.5b", "machine").groupby(["data", "method"])
    score = runs["unlearning_score"].mean()
    assert score["urls"].idxmax() == "revs" and score["emails"].idxmax() == "max_entropy"


def test_second_choices_lift_rivals_above_revs():
    """tuning: “On both it passes REVS”; “On all four … level”; “REVS falls on Emails …: they
    forget every secret, and lose more …”; “Head-Projection …, while its resistance falls”;
    fair: “FT-L passed REVS on URLs and came level with it on Emails. On SSN REVS passed RMU, and
    Head-Projection came level with REVS.”"""
    runs, columns = tuning.second_choices(MODEL), ["efficacy", "specificity", "resistance"]
    columns += ["unlearning_score"]
    means = runs.groupby(["data", "method", "tagged"])[columns].mean()
    first, second = (means.xs(tagged, level="tagged") for tagged in (False, True))
    assert set(first.loc["emails"].index) == {"revs", "ft_l", "rmu", "npo_kl"}
    score = second["unlearning_score"]
    for data, rival in (("emails", "ft_l"), ("urls", "ft_l"), ("ssn", "head_projection")):
        assert score[data, rival] > max(
            score[data, "revs"], first["unlearning_score"][data, "revs"]
        )
    final = main_comparison.runs(MODEL, *methods.PAPER_DATA)
    final = final.groupby(["data", "method"])["unlearning_score"].mean()
    assert first["unlearning_score"]["ssn", "revs"] < final["ssn", "rmu"] < final["ssn", "revs"]
    assert abs(final["ssn", "head_projection"] - final["ssn", "revs"]) < 0.02
    assert abs(final["emails", "ft_l"] - final["emails", "revs"]) < 0.02
    assert final["urls", "ft_l"] > final["urls", "revs"] + 0.05
    gained = score["ssn"] - first["unlearning_score"]["ssn"]
    assert set(gained[gained > 0.1].index) == {"revs", "memit", "max_entropy", "head_projection"}
    leads = main_comparison.runs(MODEL, "ssn-shared").query("method == 'least_squares'")
    assert score["ssn-shared"].max() < leads["unlearning_score"].mean()
    shared = first["unlearning_score"]["ssn-shared"]
    assert list(score["ssn-shared"].sort_values().index[-2:]) == ["max_entropy", "head_projection"]
    assert score["ssn-shared", "revs"] > shared["revs"] + 0.1
    assert score["ssn-shared", "memit"] < shared["memit"]
    lost = score["emails-shared"] - first["unlearning_score"]["emails-shared"]
    assert set(lost[lost < -0.1].index) == {"revs", "ft_l"}
    resistance = [of.loc[("ssn", "head_projection"), "resistance"] for of in (first, second)]
    assert resistance[1] < resistance[0] / 3
    before, after = (of.loc[("emails", "revs")] for of in (first, second))
    assert after["unlearning_score"] < before["unlearning_score"]
    assert after["efficacy"] > 0.99 and after["specificity"] < before["specificity"] - 0.1


def test_in_the_small_gptj_the_first_layers_tell_the_secret():
    """gptj: “an insider still finds nearly all secrets”; “Baselines that moved their targets kept
    hardly any other secret.”; “no trial beat the paper's own”; “here as on the book's model: the
    Delta attack … finds most”"""
    for model in ("gptj-small", MODEL):
        runs = main_comparison.runs(model, "ssn").query("method == 'least_squares'")
        attacks = [run["result"]["attacks"] for run in runs["row"]]
        kept = pd.DataFrame(attacks)[["logit_lens", "delta", "perturbation"]]
        assert kept.map(lambda one: one["per_example"]).mean().idxmin() == "delta"
    after = main_comparison.runs("gptj-small", "ssn").query("method == 'least_squares'")
    assert after["efficacy"].min() > 0.95 and after["resistance"].max() < 0.1
    layers = extraction.by_layer(results.runs("gptj-small", "ssn"), "logit_lens")
    unedited = layers[layers["method"] == methods.title("unedited")].set_index("layer")["efficacy"]
    assert unedited.max() < 0.15
    trials = tuning.trials("gptj-small", "ssn-tune").set_index("method")
    rivals = trials.drop(index=["revs", "least_squares"])
    assert rivals.loc[rivals["efficacy"] >= 0.2, "specificity"].max() < 0.2
    assert (rivals["efficacy"] >= 0.2).groupby("method").sum().max() <= 3  # “few trials …”
    own = trials.loc["revs"].reset_index()
    assert own.loc[own["unlearning_score"].idxmax(), "printed"]


def test_revs_forgets_a_third_of_the_addresses_that_a_model_knows():
    """organic: “REVS forgets about a third of them and keeps over half”; “the model writes hardly
    any of these addresses. In two of three cases … both … among the hundred most likely”"""
    runs = main_comparison.runs("qwen2.5-coder-0.5b", "known-email").query("method == 'revs'")
    secrets = pd.concat([rows.per_example(row) for row in runs["row"]]).query("part == 'forget'")
    pairs = zip(secrets["ranks"], secrets["T"], strict=True)
    near = np.mean([all(ranks[position] < 100 for position in T) for ranks, T in pairs])
    assert abs(near - 2 / 3) < 0.05 and secrets["exact"].mean() < 0.05
    assert 0.5 < runs["specificity"].mean() < 0.6


def test_relearning_stops_early_on_numbers():
    """gone: “On SSN no method needed more than six steps”; “nothing to train while a model still
    writes its secrets”"""
    found = rows.find(rows.RECORDED, kind="audit").values()
    steps = pd.DataFrame(
        {"data": row["data"], "method": row["method"]}
        | {"steps": max(row["result"]["relearning"]["steps"])}
        for row in found
    )
    most = steps.groupby(["data", "method"])["steps"].max().unstack()
    assert most.loc["ssn"].drop(["gold", *main_comparison.CONTROLS], errors="ignore").max() == 6
    assert most[["unedited", "random"]].max(axis=None) <= 2


def test_a_random_edit_costs_perplexity_as_revs_does():
    """integrity: “A random edit as large as REVS's costs more than half as much as REVS on SSN, and
    more than REVS on Emails.”"""
    runs = main_comparison.runs(MODEL, "ssn", "emails")
    rise = runs.groupby(["data", "method"])["perplexity_rise"].mean().unstack()
    share = rise["random"] / rise["revs"]
    assert 0.5 < share["ssn"] < 0.7 and share["emails"] > 1


def test_no_interval_confirms_the_first_place_of_revs():
    """fair: “… on SSN, which no interval confirms”"""
    runs = main_comparison.runs(MODEL, "ssn")
    runs = runs[runs["method"].isin(methods.paper_methods())]
    assert main_comparison.differences(runs, "revs")["high"].max() > 0


def test_the_new_write_leads_on_addresses_that_a_model_knows():
    """organic: “forgets every address and keeps about four fifths …; Max-Entropy …”; “begin in the
    lower third of the layers, and its Resistance Score is …”; landing page: “… leads …”"""
    runs = main_comparison.runs("qwen2.5-coder-0.5b", "known-email")
    mean = runs.groupby("method")[["efficacy", "specificity", "resistance"]].mean()
    kept, resistance = mean["specificity"], mean["resistance"]
    assert mean["efficacy"]["least_squares"] == 1 and abs(kept["least_squares"] - 4 / 5) < 0.02
    assert mean["efficacy"]["max_entropy"] > 0.98 and abs(kept["max_entropy"] - 1 / 2) < 0.05
    assert resistance.idxmax() == "least_squares"
    (first,) = {
        row["settings"]["hyperparameters"]["layers"][0]
        for row in runs["row"][runs["method"] == "least_squares"]
    }
    assert 0 < first < 24 / 3
    assert (main_comparison.differences(runs, "least_squares")["high"] < 0).all()


def test_the_tool_stays_within_its_limits_on_what_a_model_knows_by_itself():
    """untuned: “and on addresses that a model knew by itself”; “the model no longer writes them”"""
    (run,) = audits.reached().query("documents == 'packages'").to_dict("records")
    assert run["row"]["settings"]["adapter"] is None and run["outcome"] == "unlearned"
    assert all(run[f"{name} within"] for name in audits.LIMITS)
    items = rows.per_example(run["row"])
    assert not items[items["part"] == "unlearned"]["written_after"].any()


def test_the_papers_columns_forget_less_of_the_documents_and_harm_more():
    """untuned: “they forgot fewer secrets, and harmed other text far more”"""
    found = audits.reached(model=MODEL).query("documents == 'thirty documents'").set_index("write")
    columns, ours = found.loc["columns"], found.loc["least squares"]
    assert columns["forgotten"] < 0.8 * ours["forgotten"] and not columns["perplexity within"]
    harm = lambda run: 1 - run[["nearby_text", "next_word_agreement"]].astype(float)
    assert (harm(columns) > 3 * harm(ours)).all()
