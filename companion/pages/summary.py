"""What `make book` says at its end: a few lines, from rows."""

from __future__ import annotations

from companion.pages import results
from companion.pages.tables import percent
from companion.record import compare, rows


def lines(model: str = "smollm2-135m", data: str = "ssn") -> list[str]:
    """What was reproduced, in a few lines."""
    runs = results.runs(model, data)
    ours, paper = results.means(runs), results.paper_core("tab:core_results_llama", data.upper())
    found = rows.find()
    stale = sum(rows.stale(row) for row in found.values())
    revs = ours["revs"]
    return [
        f"REVS on {data.upper()}, {results.title(model)}, {results.describe_seeds(runs, 'revs')}:",
        f"  Unlearning Score {percent(*revs['unlearning_score'])} (efficacy {percent(*revs['efficacy'])}, generalization {percent(*revs['generalization'])}, specificity {percent(*revs['specificity'])})",
        f"  a random edit of the same norm: {percent(*ours['random']['unlearning_score'])}; unedited: {percent(*ours['unedited']['unlearning_score'])}",
        *(
            f"  made again in this build, {run['run']}: {run['in this build']}, recorded {run['recorded']} ({run['weights']} weights, results {run['results']})"
            for run in compare.made_again().to_dict("records")
        ),
        f"  the paper's REVS on Llama-3-8B: {percent(*paper['revs']['unlearning_score'])} (not run here: no weights)",
        f"  {len(found)} rows, {sum(row['origin'] != 'recorded' for row in found.values())} of them measured in this build, {stale} stale",
    ]
