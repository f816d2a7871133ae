"""The schema of a result row as pydantic models; their descriptions are the data dictionary.

``rows/schema.json`` is written from here (``python -m companion.store.schema``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from companion.store.paths import ROOT
from companion.store.versions import MEASURES

VERSION = 4
Count = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
By = dict[str, Any]


class Part(BaseModel):
    """A part of a row: known fields only."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


def of(text: str, default: Any = ..., **more) -> Any:
    """Return a field with this description; with a default, a row may lack the field."""
    return Field(default, description=text, **more)


# --- unlearn -------------------------------------------------------------------------------------


class Effectiveness(Part):
    k: Count = of("k of Score@k (Eq. 2)")
    efficacy: Share = of("Efficacy@k (Eq. 3), mean over the sentences that were unlearned")
    generalization: Share | None = of("The same on other sentences of these secrets, if any")
    specificity: Share = of("Share of retained secrets that greedy decoding writes next, exactly")
    specificity_within_50: Share | None = of("Share written within 50 tokens, as released; or null")
    forget: Count = of("Secrets unlearned, one sentence each")
    retain: Count = of("Sentences of the other secrets")
    unlearning_score: Share = of("Harmonic mean of efficacy, generalization, specificity")


class Edit(Part):
    layers: list[int] = of("Layers in which a neuron changed, counted from 0")
    columns: Count = of("Distinct FF2 columns (neurons) changed")
    weights: Count = of("Single weights that changed")
    moves: Count = of("Single moves of a neuron along a token's direction")
    unreached: Count = of("Neurons left alone because the wanted rank could not be reached")
    norm: Number = of("Frobenius norm of the whole change")


class Aggregations(Part):
    released: Share = of("As in the released code: revs.measures.attacks.released, released_delta")
    per_example: Share = of("Eq. 5: smallest Efficacy@k over layers of each secret, their mean")
    union: Share = of("Candidates united over layers: largest over tokens of their smallest score")
    token_wise: Share = of("One token is enough for the adversary: smallest over layers and tokens")


class Attacks(Part):
    logit_lens: Aggregations = of("Candidates: the top and bottom k of every layer's logits")
    delta: Aggregations = of("Candidates: the k logits that change most between two layers")
    perturbation: Aggregations = of("Logit-Lens after a prompt with ten spaces inside, one behind")
    resistance_score: Aggregations = of("Harmonic mean of the three attacks")
    black_box: Share = of("The perturbation attack on the last layer alone, per example")


class Unlearned(Part):
    before: Effectiveness = of("The model before the edit: the row Unedited")
    after: Effectiveness = of("The model after all targets were unlearned")
    edit: Edit = of("The size of the edit")
    attacks: Attacks = of("Resistance@k to extraction attacks (§4.4.3), four aggregations", None)
    # each further measure of the run adds what it returned, under its name
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, By]

    @model_validator(mode="after")
    def of_known_measures(self) -> Unlearned:
        if unknown := self.__pydantic_extra__.keys() - MEASURES.keys():
            raise ValueError(f"{min(unknown)} is no measure")
        return self


# --- the other experiments -----------------------------------------------------------------------


class Finetuned(Part):
    sentences: Count = of("Sentences in the data set")
    memorised: Count = of("Sentences whose secret is exactly what greedy decoding writes next")
    loss: list[float] = of("Mean training loss of each epoch, nats per token that is learned")
    learned: list[Count] = of("Sentences that each epoch went through: what is known is skipped")
    kl: list[float] = of("Mean KL of each epoch from the model before, on general text", None)
    perplexity: list[Number] = of("On general text: before and after the fine-tune", None)
    tokenizer: str = of("sha256 of the tokenizer after digits were grouped")
    vocabulary: Count = of("Tokens after digits were grouped")


class Tuned(Part):
    trials: Count = of("Hyperparameter settings that were tried")
    failed: Count = of("How many of them ended without a result")
    effective: Count = of("How many moved their targets", None)
    ranges: By = of("What settings were drawn from in the end, as in params/search.yml", None)
    widened: list[str] = of("Settings whose range grew: the best trial lay at its end", None)
    best: Count = of("Number of the trial whose settings are chosen")
    top_trials: dict[str, list[Share]] = of("The best trials: their score on each split", None)
    unlearning_score: Share = of("Of the chosen trial: the mean over splits")
    hyperparameters: By = of("The chosen settings; the others keep the method's default")


class Funnel(Part):
    found: Count = of("Secrets that were detected, repetitions included")
    dropped: dict[str, Count] = of("Secrets that were not tried, by reason")
    tried: Count = of("Distinct secrets that the model was asked for")
    teacher_forced: Count = of("Secrets whose every token is the most probable after the true ones")
    memorised: Count = of("The secret is written within 50 greedy tokens: the paper's verdict")
    both: Count = of("Secrets that pass both tests")
    leaked: Count = of("Of both, those whose own part stands in their prompt")
    kept: Count = of("The size of the data set: both, or both without those leaked")


class Curated(Part):
    documents: Count = of("Documents that were read")
    skipped: dict[str, Count] = of("Files or lines that are no document, by reason")
    funnel: dict[str, Funnel] = of("By kind of secret: found = dropped + tried")


class State(Part):
    written: Count = of("Unlearned secrets that the model writes within 50 greedy tokens")
    forgotten: Count = of("Unlearned secrets neither written nor with all tokens among the top 100")
    kept: Count = of("Secrets left alone that it writes next, exactly")
    attacks: By = of("Resistance@100 of the unlearned secrets by attack and aggregation")
    general_text: By = of("Perplexity on general text")
    changed: Share = of("Share of most probable next tokens that changed", None)


class Audited(Part):
    documents: Count = of("Documents that were read")
    found: By = of("By kind of secret: found, left out by reason, tried and memorised")
    skipped: By = of("Files or lines that are no document, by reason")
    absent: list[int] = of("Lines of the file of secrets that stand in no document")
    memorised: Count = of("Secrets that the model writes right after the text before them")
    outcome: Literal["nothing memorised", "unlearned", "no setting found"] = of("How it ended")
    method: str | None = of("Method that writes the edit; unknown in older rows", None)
    limits: By = of("What a success is, by name", None)
    reached: By = of("By limit: the value, the limit, and whether it is within", None)
    unlearned: Count = of("Secrets that were unlearned", None)
    kept: Count = of("Memorised secrets that were left alone", None)
    trials: list[By] = of("Every trial of the search; empty if settings were given", None)
    halfway: list[Count] | None = of("Of other secrets: written before and after a trial", None)
    written: bool = of("Whether the edit was written", None)
    settings: By = of("The method's settings that were used", None)
    edit: By = of("Size of the edit", None)
    before: State = of("Before the edit", None)
    after: State = of("After it", None)


class Recovered(Part):
    secrets: Share = of("Share of the secrets to forget that the attack recovers")
    never_trained: Share = of("Share of as many never-trained strings that it recovers")


class Relearned(Part):
    steps: list[Count] = of("Steps on each half until it was written, at most 20")
    written: list[Share] = of("Share of each half that was written in the end")


class Rounded(Part):
    bits: Count = of("Fewest bits per weight that keep 90 % of what the unedited model writes")
    kept: Share = of("Share of what the unedited model writes that it still writes rounded")


class SecretAudit(Part):
    secrets: Count = of("Secrets to forget, one sentence each, with one never-trained string each")
    strings: Count = of("Other never-trained strings beside each of them")
    written: Share = of("Share of the secrets that greedy decoding writes next, without an attack")
    attacks: dict[str, Recovered] = of("By attack: what it recovers")
    relearning: Relearned = of("How relearning went")
    rounding: Rounded = of("How coarsely weights were rounded")
    edit: Edit = of("The size of the edit; zero for the gold standard")


# --- the row -------------------------------------------------------------------------------------


class Failed(Part):
    failed: str = of("Why there is no result, in one sentence; such a row has no number")


class Values(Part):
    file: str = of("Parquet file beside the row's")
    sha256: str = of("Hash of this row's values")


RESULTS: dict[str, type[Part]] = {
    "audit": SecretAudit,
    "curate": Curated,
    "documents": Audited,
    "finetune": Finetuned,
    "tune": Tuned,
    "unlearn": Unlearned,
}


class Row(Part):
    schema_version: Literal[VERSION] = of("Version of this schema", alias="schema")
    kind: Literal[tuple(RESULTS)] = of("The experiment, which decides the form of result")
    name: str = of("experiment/data/model/method-seed-…: unique among all rows")
    data: str = of("Data set, list of secrets or folder of documents that the run is about")
    model: str = of("Name of the model")
    method: str | None = of("Name in params/methods.yml; null where an experiment has none")
    seed: int | None = of("Seed of the split; null where nothing is drawn")
    tag: str = of("What tells runs of the same method and seed apart; empty for the usual settings")
    overrides: By = of("The settings that a sweep's grid sets; of a search's trial its number")
    result: By = of("What was found; bit for bit the same on a like machine")
    values: Values | None = of("Per-example values, one line per example; null without any")
    versions: dict[str, Annotated[int, Field(ge=1)]] = of("VERSION of each module the run used")
    settings: By = of("Every parameter of the run, hyperparameters resolved")
    inputs: dict[str, str] = of("Hashes of the weights, the data set and other files read")
    commit: str | None = of("Commit of the code, -dirty if files differed; null if unknown")
    environment: By = of("Python, libraries, device, processor, cores, threads, memory, system")
    seconds: dict[str, float] = of("Wall-clock seconds of each stage")
    peak_memory_mb: Count = of("Highest resident memory of the process, or GPU allocation, MiB")
    date: str = of("Day of the run, UTC")
    tokenizer: str = of("sha256 of the tokenizer: results belong to its token ids")
    extra_memory_mb: Count | None = of("MiB that unlearning took beyond what was in use", None)


class Outdated(ValueError):
    """Raised for a complete row that does not fit this version of the schema."""


def validate(row: dict) -> None:
    """Raise Outdated if a row, or its result, is not of this schema."""
    try:
        Row.model_validate(row)
        failed = isinstance(row["result"].get("failed"), str)
        result = Failed if failed else RESULTS[row["kind"]]
        result.model_validate(row["result"])
    except ValidationError as error:
        fault = error.errors()[0]
        where = f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
        said = f"Row {row.get('name')} does not fit the schema ({where}): run it again, or check "
        raise Outdated(f"{said}out the version that wrote it.") from None


def json_schema() -> str:
    """rows/schema.json as it is written: a row, and the results of each kind of row."""
    kinds = {kind: TypeAdapter(part | Failed).json_schema() for kind, part in RESULTS.items()}
    found = Row.model_json_schema() | {"results": kinds}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def dictionary() -> Iterator[dict[str, str]]:
    """The data dictionary: every field of a row with its type and its meaning."""
    yield from described(Row.model_json_schema(), "")
    for kind, part in RESULTS.items():
        yield from described(part.model_json_schema(), f"{kind}: result.")
    for name, place in MEASURES.items():
        if name not in Unlearned.model_fields:
            about = {"type": "object", "meaning": f"What {place.replace(':', '.')} returns"}
            yield {"field": f"unlearn: result.{name}"} | about


def described(schema: dict, prefix: str, within: dict | None = None) -> Iterator[dict[str, str]]:
    """The fields of a JSON schema and of what is in it, one line each."""
    parts = within or schema.get("$defs", {})
    for name, field in schema.get("properties", {}).items():
        forms = field.get("anyOf", [field])
        kinds = [one.get("type", "object") for one in forms]
        meaning = {"type": " or ".join(kinds), "meaning": field.get("description", "")}
        yield {"field": prefix + name} | meaning
        inner = [*forms, field.get("additionalProperties"), field.get("items")]
        for ref in (one["$ref"] for one in inner if isinstance(one, dict) and "$ref" in one):
            yield from described(parts[ref.rpartition("/")[2]], f"{prefix}{name}.", parts)


if __name__ == "__main__":
    (ROOT / "rows" / "schema.json").write_text(json_schema(), encoding="utf-8")
