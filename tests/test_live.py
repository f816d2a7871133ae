"""The live figure: in Chromium it finds what Python finds on the same rounded weights."""

import json
import re
import sys

import numpy as np
import pytest
import torch

from companion.data import live
from companion.store.paths import ROOT
from companion.workflow import live as build
from revs.measures import evaluate
from revs.method import algorithm
from revs.method.vocabulary import Vocabulary
from revs.model.targets import Record, encode

sys.path.append(str(ROOT / "live"))
chromium = pytest.importorskip("chromium")
import make_still  # noqa: E402

pytestmark = pytest.mark.slow  # half a minute
DONE = make_still.DONE
WRITES = ("columns", "squares")
SHOWN = range(2)  # of the five examples, numbers all of them, that a reader may choose
STATE = """(({before, after}) => {
  const plain = (one) => ({...one, neurons: [...one.neurons], c: [...one.c]});
  return {before, after: {...after, moves: after.moves.map(plain)}};
})(revsLive.state)"""


@pytest.fixture(scope="module")
def decoder():
    return live.load()


@pytest.fixture(scope="module")
def examples():
    return build.read_json("model/examples.json")["secrets"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory, examples):
    """What the page found: before and after each write of each secret, and the page itself."""
    if chromium.PROGRAM is None:
        pytest.skip("Chromium is not installed")
    text = make_still.TARGET.read_text(encoding="utf-8")
    figure = text.removeprefix("```{raw} html\n").removesuffix("```\n")
    found = {}
    with chromium.page() as page:
        make_still.open_figure(page, figure, tmp_path_factory.mktemp("figure"))
        found["still"] = page.evaluate("document.querySelector('[data-live=chart]').innerHTML")
        page.evaluate("document.querySelector('[data-live=load]').click()")
        page.wait(DONE)
        found["first"] = page.evaluate("document.querySelector('[data-live=chart]').innerHTML")
        for i in SHOWN:
            for how in WRITES:
                page.evaluate(f"revsLive.state.how = '{how}'")
                page.evaluate(f"revsLive.choose(revsLive.state.examples.secrets[{i}])")
                page.wait(DONE)
                found[i, how] = page.evaluate(STATE)
        found["defaults"] = page.evaluate("revsLive.defaults")
        found["errors"], found["requests"] = page.errors, page.requests
    return found


def target_of(example, decoder):
    """The example as the library encodes it, from its text."""
    text = decoder.tokenizer.decode(example["ids"])[len(example["prompt"]) :]
    return encode(Record("example", "text", "", example["prompt"], text, ""), decoder.tokenizer)


@torch.no_grad()
def ranks(decoder, target):
    """The stream's rank of every token of the secret in every layer: [layer][token]."""
    vocabulary, rows = Vocabulary(decoder), []
    for position, t in enumerate(target.secret_ids):
        found = evaluate.ranks_by_layer(decoder, vocabulary, target.before(position), t)
        rows.append(found[:, 1].tolist())
    return [list(layer) for layer in zip(*rows, strict=True)]


def edited(decoder, target, how):
    if how == "columns":
        return algorithm.unlearn(decoder, [target], algorithm.Hyperparameters(**live.settings()))
    prompt, secret = (
        decoder.tokenizer.decode(ids) for ids in (target.prompt_ids, target.secret_ids)
    )
    return live.least_squares(decoder, prompt, secret)


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("i", SHOWN)
def test_the_page_finds_what_python_finds(seen, decoder, examples, i, how):
    target, page = target_of(examples[i], decoder), seen[i, how]
    assert [examples[i]["start"] + position for position in target.T] == examples[i]["T"]
    assert page["before"]["ranks"] == ranks(decoder, target)
    original = [decoder.neurons(l).clone() for l in range(len(decoder.layers))]
    edit = edited(decoder, target, how)
    try:
        same_ranks(page["after"]["ranks"], ranks(decoder, target))
        written = evaluate.greedy(decoder, [target.prompt_ids], 14)[0]
        end = written.index(0) if 0 in written else len(written)
        assert page["after"]["says"]["text"] == decoder.tokenizer.decode(written[:end])
        assert page["after"]["unreached"] == edit.unreached
        if how == "columns":
            same_moves(page["after"]["moves"], edit.moves)
        else:
            same_change(page["after"]["moves"], decoder, original)
    finally:
        edit.undo()


def same_ranks(found, wanted):
    """Ranks below 1,000 as they are, higher ones within a thousandth: two tokens far down can be
    as likely as each other but for the rounding of a processor."""
    for of_layer, of_python in zip(found, wanted, strict=True):
        assert of_layer == pytest.approx(of_python, rel=1e-3, abs=0)


def same_moves(found, wanted):
    """(layer, neuron, token) as they are, c within 1e-4 relative."""
    flat = [(m["layer"], n, m["t"], c) for m in found for n, c in zip(m["neurons"], m["c"])]
    assert [one[:3] for one in flat] == [one[:3] for one in wanted]
    assert [one[3] for one in flat] == pytest.approx([one[3] for one in wanted], rel=1e-4)


@torch.no_grad()
def same_change(found, decoder, original):
    """The low-rank change of each layer's FF₂ is Python's, 1e-4 relative.

    Python's is a difference of float32 weights, each of which was rounded.
    """
    vocabulary = Vocabulary(decoder)
    for l, weight in enumerate(original):
        change = torch.zeros_like(weight)
        for move in found:
            if move["layer"] == l:
                d_t = vocabulary.direction(move["t"])[0]
                change += d_t[:, None] * torch.tensor(move["c"])
        wanted = decoder.neurons(l) - weight
        rounding = 2**-24 * weight.norm()
        assert (change - wanted).norm() <= 1e-4 * wanted.norm() + rounding


def test_the_sliders_begin_where_python_does(seen):
    own = {name: value for name, value in seen["defaults"].items() if name != "how"}
    assert live.settings(**own) == live.settings()


def test_the_still_is_what_the_model_shows(seen):
    numbers = lambda text: [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", text)]
    assert numbers(seen["still"]) == numbers(seen["first"]) and len(numbers(seen["still"])) > 50


def test_the_figure_asks_nobody_and_breaks_nothing(seen):
    elsewhere = [url for url in seen["requests"] if not url.startswith(("file:", "blob:", "data:"))]
    assert elsewhere == [] and seen["errors"] == []


def test_a_click_loads_at_most_30_megabytes_and_every_byte_arrives():
    files, model = build.files(), (live.FOLDER / "model.safetensors").read_bytes()
    assert sum(map(len, files.values())) <= 30_000_000
    found = b""
    for name in sorted(name for name in files if name.startswith("weights")):
        part = json.loads(files[name].decode("utf-16").split(", ", 1)[1].removesuffix(");\n"))
        pairs = np.frombuffer(part.encode("utf-16-le", "surrogatepass"), "<u2") ^ build.FLIP
        found += pairs.tobytes()
    assert found.startswith(model) and len(found) == len(model) + build.factor(model).nbytes


def test_the_model_says_its_secrets_and_passed_its_gate(decoder):
    targets = [encode(record, decoder.tokenizer) for record in live.records()]
    ranks, gate = evaluate.secret_ranks(decoder, targets), build.read_json("model/gate.json")
    assert gate["said"] == sum(not any(of_tokens) for of_tokens in ranks.values())
    assert gate["said"] >= 0.95 * gate["sentences"] and gate["sentences"] == len(targets)
    assert min(gate["columns"]["efficacy"] + gate["columns"]["specificity"]) >= 0.9
