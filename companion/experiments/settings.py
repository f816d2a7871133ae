"""The settings of every experiment, as models that sweeps, notebooks and the command line share.

``check`` explains a wrong parameter in one sentence: the cause and the remedy. This module imports
nothing slow: a sweep of a thousand runs is checked in a second.
"""

import dataclasses
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, ValidationError, create_model

from companion.store.paths import params, resolve
from companion.store.suggestions import hint
from document_audit.settings import KINDS, STRICT, AuditSettings, Kind

NAME = r"^[\w.+-]*\w[\w.+-]*$"  # which becomes that of a file
MODEL = "smollm2-135m"
ADAPTER = "seed1"  # the adapter that the book's pages start from
DRAWS = "draws"  # tag of a second search (book/design.md)
FIRST = "first"  # tag of runs with the first search's choice, where the second one's counts
GOLD = "gold"  # no method: a model that was never trained on the secrets to forget
Dtype = Literal["float32", "bfloat16", "float16"]


def emails_for_urls(data: str) -> str:
    """Return the data set that lends its settings to one without: e-mails for URLs (§4.5), the
    plain set for a set with shared tokens."""
    return re.sub(r"(^|[-_])url(s?)$", r"\1email\2", data.removesuffix("-shared"))


def lookup(chosen: dict[str, dict], method: str, model: str, data: str) -> dict[str, Any]:
    """What a file of params has for a method, a model and a data set: the method's own settings, or
    what it takes of another method's; empty if it has none."""
    entry = params("methods")[method]
    of = chosen.get(entry.get("settings_of", method), {}).get(model, {})
    found = of.get(data) or of.get(emails_for_urls(data)) or {}
    return {name: found[name] for name in entry.get("takes", found) if name in found}


def field(default: Any, about: str, **more) -> Any:
    """A field with a default and its description, which ``--help`` and the notebooks show."""
    return Field(default, description=about, **more)


def place(default: Any, about: str, **more) -> Any:
    """A path or a name, which cannot be empty."""
    return field(default, about, min_length=1, **more)


def count(default: int | None, about: str, least: int = 1) -> Any:
    """Return a field for a whole number of at least ``least``."""
    return field(default, about, ge=least)


def base(model: str) -> str:
    """What a model is called in rows."""
    return Path(model).name.removesuffix(".gguf")


class Model(BaseModel):
    """The settings of all experiments: the model that they start from, and where their rows go."""

    model_config = STRICT
    model: str = place(MODEL, "in params/models.yml, or a folder, .gguf file, hub id")
    dtype: Dtype = field("float32", "precision of the weights")
    device_map: str | None = field(None, "where the model goes; None: a GPU if there is one")
    rows: str = place("build/rows", "where the result row goes")

    @property
    def row_name(self) -> str:
        """The name of its row: experiment/what it is about/model."""
        return f"{type(self).__name__.lower()}/{self.name}/{base(self.model)}"


class Adapted(Model):
    """The settings of a model with or without an adapter."""

    adapter: str | None = place(ADAPTER, "a name in data/adapters or a PEFT adapter; None: none")


class OneMethod(Adapted):
    """One method on one data set, by which its row is named."""

    @property
    def row_name(self) -> str:
        """Experiment/data set/model/method, which includes any adapter but the usual one."""
        other = self.adapter and self.adapter != ADAPTER and f"adapter-{Path(self.adapter).name}"
        parts = (f"{self.method}-seed{self.seed}", other, self.tag)
        about = f"{type(self).__name__.lower()}/{Path(self.data).stem}/{base(self.model)}"
        return f"{about}/{'-'.join(filter(None, parts))}"


class OneSplit(OneMethod):
    """One method on one split: what is forgotten, and how."""

    data: str = place("ssn", "a built-in data set or a JSON Lines file")
    method: str = field("revs", "a name of params/methods.yml")
    seed: int = field(1, "draws what is forgotten and what is kept")
    forget: int | None = count(None, "secrets to forget; None: half")
    T: int | None = count(2, "target tokens per secret; None: all that may be unlearned")
    tokens: str = field("rarest", "rule that chooses them: rarest, frequent, first, random")
    protect: str | None = place(None, "a data set whose sentences a method may spare; None: none")
    hyperparameters: dict | None = field(None, "replaces settings of params/hyperparameters.yml")
    tag: str = field("", "added to the row's name")
    overrides: dict | None = field(None, "settings of a sweep's grid, kept in the row")


class Unlearn(OneSplit):
    """The settings of an unlearning run: data, model, method and measures."""

    sentences: int | None = count(None, "further sentences measured per secret; None: all")
    score_k: int = count(100, "k of Score@k")
    generate: bool = field(True, "also look for retained secrets in 50 greedy tokens")
    measures: list[str] = field([], "what else is measured, such as attacks")


class Audit(OneSplit):
    """The settings of an audit: attacks on an edited model for the secrets that it should lack."""

    method: str = field("revs", "a name of params/methods.yml, or gold: never trained")
    never_trained: str | None = place(None, "secrets that it never read; None: the tuning set")
    strings: int = count(200, "never-trained strings per secret", least=2)

    @property
    def unlearn(self) -> Unlearn:
        """The run that is audited; of the gold standard an unedited one."""
        given = self.model_dump(exclude={"never_trained", "strings"})
        return Unlearn(**given | ({"method": "unedited"} if self.method == GOLD else {}))


class Tune(OneMethod):
    """The settings of a search for hyperparameters: model, data, method and length."""

    adapter: str | None = place("tune1", "a name in data/adapters or a PEFT adapter; None: none")
    data: str = place("ssn-tune", "a tuning set: other people and secrets than the test set's")
    method: str = field("revs", "a name of params/methods.yml")
    trials: int = count(40, "effective trials")
    starts: bool = field(True, "first the paper's and earlier settings; false: draws alone")
    seed: int = field(0, "seed of the split")
    search_seed: int = field(0, "seed of the optimiser's draws")
    top_trials: int = count(5, "best trials, evaluated again on each further split")
    splits: list[int] = field([1, 2], "seeds of the further splits")
    measures: list[str] = field([], "further measures on those splits, such as attacks")
    forget: int | None = count(None, "secrets to forget in a trial; None: half, as in a run")
    sentences: int | None = count(2, "further sentences measured per secret; None: all")
    hyperparameters: dict | None = field(None, "settings fixed in every trial")
    ranges: dict | None = field(None, "replaces ranges of params/search.yml")
    tag: str = field("", "added to the names of the search and its trials")


class Finetune(Model):
    """A fine-tune to memorise sentences, a LoRA adapter (Appendix, "Synthetic SSN Dataset").

    The paper trains all weights of its 6B and 8B models: lr 2e-6, 4 epochs, batch 1.
    """

    name: str = field("own", "the adapter's name: build/adapters/NAME", pattern=NAME)
    data: str = place("ssn", "a JSON Lines file, a built-in data set, or synthetic: all")
    rank: int = count(8, "rank of the update of each linear layer")
    digits: Literal["learned", "noise", "keep"] = field(
        "learned", "tokens of 2, 3 digits: learned, noise; keep: none"
    )
    lr: float = field(2e-3, "learning rate, falling linearly", ge=0)
    epochs: int = count(8, "passes over the sentences not yet known")
    batch: int = count(8, "sentences per step")
    general_text: int = count(2, "windows of general text per step; 0: none", least=0)
    kl_weight: float = field(1.0, "weight of the KL divergence to the base model there", ge=0)
    whole: bool = field(False, "learn whole sentences, not only the secrets in them")
    skip_below_loss: float = field(0.4, "nats: sentences below it wait for the last epoch", ge=0)
    seed: int = field(1, "order of the sentences, initial values")


class Curate(Adapted):
    """The settings of a curation: documents, model, and which found secrets are kept."""

    documents: str = place(
        "data/documents/files", 'a folder or a file, or "machine": packages', repr=False
    )
    name: str = field("own", "the data set's name: build/curated/NAME.jsonl", pattern=NAME)
    kinds: list[Kind] = field(list(KINDS), "kinds of secrets to look for", min_length=1)
    limit: int | None = count(None, "secrets tried per kind; None: all")
    T: int = count(2, "target tokens that a secret must have")
    keep_leaked: bool = field(True, "keep secrets whose own part stands in their prompt")
    tuning_share: float = field(
        0.0, "share set aside for tuning, of other owners and domains", ge=0, lt=1
    )
    challenge_tokenizer: str | None = field(None, "tokenizer of the ids in the challenge's files")


class Documents(Adapted, AuditSettings):
    """The settings of a document audit: model, documents, what to unlearn, where results go."""

    documents: str = place(
        "data/documents/files", 'folder, file, "machine" or "$VARIABLE"', repr=False
    )
    secrets: str | None = place(
        None, "a file of secrets, one per line; None: recognisers", repr=False
    )
    out: str = place("build/documents", "where report.html and the folder edit go")
    export: str | None = place(None, "a new folder for the edited model with its card")

    @property
    def row_name(self) -> str:
        return f"documents/{resolve(self.out).resolve().name}/{base(self.model)}"


EXPERIMENTS: dict[str, type[Model]] = {
    one.__name__.lower(): one for one in (Audit, Curate, Documents, Finetune, Tune, Unlearn)
}
REMEDIES = {  # by pydantic's name of the fault
    "greater_than_equal": "{0}, but must be at least {ge:g}.",
    "less_than": "{0}, but must be less than {lt:g}.",
    "less_than_equal": "{0}, but must be at most {le:g}.",
    "too_short": "empty: name one at least.",
    "string_too_short": "empty: give a path or a name.",
    "string_pattern_mismatch": "{0!r}, but becomes the name of a file: use letters, digits, dots, "
    "minus and plus signs only.",
}
S = TypeVar("S", bound=BaseModel)


def check(parameters: dict[str, Any], Settings: type[S], of: str = "") -> S:
    """The settings with these parameters; ValueError of one sentence if one is wrong."""
    try:
        return Settings(**parameters)
    except ValidationError as error:
        raise ValueError(sentence(error, Settings, parameters, of)) from None


def sentence(error: ValidationError, Settings: type[S], given: dict, of: str = "") -> str:
    """What is wrong with a parameter: the cause and the remedy. A path is not repeated."""
    faults = error.errors()
    name = faults[0]["loc"][0]
    if name not in Settings.model_fields:
        return f"There is no parameter {name!r}{of}" + hint(name, Settings.model_fields)
    known, value = Settings.model_fields[name], given[name]
    for fault in faults:
        if fault["type"] in REMEDIES:
            return f"{name}{of} is " + REMEDIES[fault["type"]].format(value, **fault["ctx"])
    kind = "None" if value is None else f"a {type(value).__name__}"
    shown = f"{value!r}, " if known.repr and value is not None else ""
    if faults[0]["type"] == "literal_error":
        shown, kind = "", repr(value)
    said = f"{name}{of} is {shown}{kind}, but must be {in_words(known.annotation)}"
    return f"{said}{way_to_pass(name, known.annotation, value)}."


def way_to_pass(name: str, annotation: Any, value: Any) -> str:
    """Return how to pass a value that was misread: a number as text, a list, text as a number."""
    inner = get_args(annotation) or (annotation,)
    if isinstance(value, int | float) and str in inner:
        return f" (papermill: -r {name} {value})"
    if isinstance(value, str) and float in inner and re.fullmatch(r"[-+\d.]+e[-+]?\d+", value):
        return " (YAML reads a number with an exponent only with a point and a sign: 1.0e-5)"
    several = any(get_origin(one) in (list, dict) or one is dict for one in (annotation, *inner))
    return f" (papermill: -y '{{{name}: …}}')" if isinstance(value, str) and several else ""


def in_words(annotation: Any) -> str:
    """A type: "int or None", "list[str]", "learned, noise or keep"."""
    inner = get_args(annotation)
    if not inner:
        return "None" if annotation is type(None) else annotation.__name__
    if get_origin(annotation) is Literal:
        return f"{', '.join(inner[:-1])} or {inner[-1]}"
    if get_origin(annotation) in (list, Sequence):
        return f"list[{in_words(inner[0])}]"
    return " or ".join(map(in_words, inner))


@functools.cache
def model_of(Hyperparameters: type) -> type[BaseModel]:
    """A method's hyperparameters, a dataclass of ``revs``, as a model that checks their types."""
    hints = get_type_hints(Hyperparameters)
    known = {
        one.name: (hints[one.name], None) for one in dataclasses.fields(Hyperparameters) if one.init
    }
    return create_model(Hyperparameters.__name__, __config__=STRICT, **known)
