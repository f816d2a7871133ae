"""Claims about the size of an edit and the price of its strength are judged from rows."""

from test_results import shelf  # noqa: F401

from companion.ledger import checks
from companion.record import rows


def test_a_small_subset_is_a_share_of_all_columns(shelf):  # noqa: F811
    judged = lambda most: checks.small("smollm2-135m", "ssn", "revs", most)
    assert judged(10) is None
    shelf(seed=1)
    (row,) = rows.find(kind="unlearn").values()
    row["result"]["edit"]["columns"] = 4608
    rows.save(
        row["path"], {key: value for key, value in row.items() if key not in ("path", "origin")}
    )
    assert (
        judged(10)[:2] == (True, "10.0 per cent of 46,080 columns")
        and judged(9)[0] is False
        and len(judged(9)[2]) == 1
    )


def test_how_much_of_a_model_an_edit_touches_is_told_beside_another(shelf):  # noqa: F811
    assert checks.extent(["smollm2-135m"], ["ssn"]) == ""
    for seed, columns in ((1, 4608), (2, 0)):
        row = shelf(seed=seed)
        row["result"]["edit"]["columns"] = columns
        rows.save(rows.RECORDED / f"{row['name']}.json", row)
    said = checks.extent(["smollm2-135m", "gptj-small"], ["ssn", "emails"])
    assert (
        said.startswith(
            "REVS edits on SSN 1.0 of 30 layers and 5.0 per cent of the columns of FF₂ in SmolLM2"
        )
        and said.endswith(".")
        and "Emails" not in said
        and "GPT-J" not in said
    )


def test_what_strength_costs(shelf):  # noqa: F811
    judged = lambda kind, *given: getattr(checks, kind)("smollm2-135m", "ssn", *given)
    assert (
        judged("costs", "revs", "efficacy", 99, "specificity")
        is judged("narrower", "memit", "revs", "specificity")
        is judged("traded", "revs", "memit")
        is None
    )
    for name, knob, points in (
        ("revs", "r_h", ((0.02, 0.5, 0.9), (0.05, 0.9, 0.5))),
        ("memit", "clamp_norm_factor", ((0.5, 0.5, 0.7), (0.9, 0.9, 0.75))),
    ):
        for number, (value, efficacy, specificity) in enumerate(points):
            shelf(
                method=name,
                tag=("base" if name == "revs" else "strength")
                if not number
                else f"strength-{knob}{value}",
                hyperparameters={knob: value},
                efficacy=efficacy,
                specificity=specificity,
            )
    assert judged("costs", "revs", "efficacy", 99, "specificity")[:2] == (False, "90.0 at most")
    assert (
        judged("costs", "revs", "efficacy", 90, "specificity")[:2]
        == (True, "specificity 50.0 with it, 90.0 without")
        and judged("costs", "memit", "efficacy", 90, "specificity")[0] is False
    )
    assert (
        judged("narrower", "memit", "revs", "specificity")[:2] == (True, "5.0 against 40.0 points")
        and judged("narrower", "revs", "memit", "specificity")[0] is False
    )
    assert (
        judged("traded", "revs")[:2] == (True, "REVS 90.0 to 50.0")
        and judged("traded", "revs", "memit")[0] is False
    )
