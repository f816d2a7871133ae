"""An edit as a PEFT adapter: loaded it gives the edited ranks, unloaded it leaves no bit, and what
does not belong together is refused."""

import errno
import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from conftest import FAMILIES, build, same_bits, weights
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open
from safetensors.torch import load_file, save

from document_audit import edit_file, export
from revs.measures.evaluate import secret_ranks
from revs.method import algorithm, controls, least_squares, zero
from revs.method.algorithm import Hyperparameters
from revs.method.edit import Edit
from revs.model import load
from revs.model.targets import Record, Target, encode

HP = Hyperparameters(n_max=5, k=24, r_h=200, eps_r_h=20, r_n=240, eps_r_n=12)
LEAST_SQUARES = least_squares.Hyperparameters(r_h=280, lam=1e-3, mu=0.0)
METHODS = {"revs": (algorithm, HP), "least_squares": (least_squares, LEAST_SQUARES)}
OTHERS = (("revs", "float32"), ("least_squares", "bfloat16"))
SECRETS = [
    Record(name, "ssn", name, f"The number of {name.title()} is ", number, ".")
    for name, number in (("ada", "941-14-8265"), ("bea", "935-27-1068"))
]
KINDS = ["llama-tied", "gpt2", "gemma2"]  # plain, transposed, a norm of its own after FF₂


@pytest.fixture
def base(tmp_path):
    """base(kind, dtype, seed): a tiny decoder as it is loaded, with the hash of its weights."""

    def loaded(kind="llama-tied", dtype="float32", seed=0):
        folder = tmp_path / f"{kind}-{seed}"
        if not folder.exists():
            made = build(kind, seed, torch.float32)
            load.save(made.model, made.tokenizer, folder)
        return load.load(str(folder), dtype)

    return loaded


def targets(decoder, records=SECRETS) -> list[Target]:
    return [encode(record, decoder.tokenizer) for record in records]


def made(decoder, records=SECRETS, method="revs", **more) -> tuple[Edit, edit_file.SavedEdit]:
    """An edit, which stays on the decoder, and what a folder holds of it."""
    module, hp = METHODS[method]
    hp, some = replace(hp, **more), targets(decoder, records)
    before = secret_ranks(decoder, some)
    edit = module.unlearn(decoder, some, hp)
    added = edit_file.factors(edit, hp)
    edit.undo()
    original = edit_file.weights_hash(decoder, added)
    edit, after = edit_file.add(decoder, added), secret_ranks(decoder, some)
    return edit, edit_file.saved_edit(decoder, added, method, hp, before, after, original)


def written(folder, about) -> Path:
    return edit_file.write(folder, about, export.card(about, adapter=True))


# --- peft, and the same edit again ----------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, method, dtype",
    [
        *((kind, "least_squares", "float32") for kind in FAMILIES),
        *((kind, *way) for kind in KINDS for way in OTHERS),
    ],
)
@torch.no_grad()
def test_peft_loads_unloads_and_merges_it(base, tmp_path, kind, method, dtype):
    """From the folder alone: the edited ranks, the base's bits again, the edited weights."""
    decoder, fresh = base(kind, dtype), base(kind, dtype)
    plain = weights(fresh)
    _, about = made(decoder, method=method)
    folder = written(tmp_path / "edit", about)
    ids = torch.tensor([[5, 17, 230, 41, 99]])
    loaded = PeftModel.from_pretrained(fresh.model, folder)
    slack = 1e-4 if dtype == "float32" else 5e-2  # the product is added before rounding, or after
    logits = decoder.model(ids).logits
    apart = float((loaded(input_ids=ids).logits - logits).norm() / logits.norm())
    assert apart < slack
    if dtype == "float32":
        assert secret_ranks(fresh, targets(fresh)) == about.after != about.before
    assert loaded.unload() is fresh.model and same_bits(fresh, plain)
    merged = PeftModel.from_pretrained(fresh.model, folder).merge_and_unload()
    for name, weight in decoder.model.state_dict().items():
        step = torch.finfo(weight.dtype).eps * weight.abs().amax()
        assert (merged.state_dict()[name] - weight).abs().amax() <= 2 * step


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_applied_again_it_gives_the_same_bits_and_undone_it_leaves_none(
    base, tmp_path, kind, method
):
    decoder, fresh = base(kind, "bfloat16"), base(kind, "bfloat16")
    plain = weights(fresh)
    edit, about = made(decoder, method=method)
    found = edit_file.read(written(tmp_path / "edit", about))
    assert found == about and found.factors.keys() == about.factors.keys()
    again = edit_file.apply(fresh, found)
    assert same_bits(fresh, weights(decoder)) and not same_bits(fresh, plain)
    again.undo()
    assert same_bits(fresh, plain)


def test_the_folder_says_what_it_is_and_has_no_text_of_the_secrets(base, tmp_path):
    """For its owner alone; what is printed of it tells no token; another edit takes its place."""
    folder = written(tmp_path / "edit", about := made(base())[1])
    assert folder.stat().st_mode & 0o777 == 0o700
    names = {edit_file.CONFIG, edit_file.WEIGHTS, edit_file.README}
    assert {file.name for file in folder.iterdir()} == names
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    config = json.loads((folder / edit_file.CONFIG).read_text())
    assert config["r"] == config["lora_alpha"] == about.rank
    assert config["rank_pattern"] == config["alpha_pattern"]
    card = (folder / edit_file.README).read_text()
    assert about.model in card and "**Confidential.**" in card and "unload()" in card
    hidden = [part for one in SECRETS for part in (one.prompt, one.secret, one.id.title())]
    for file in folder.iterdir():
        assert not any(part.encode() in file.read_bytes() for part in hidden)
    assert about.model in repr(about)
    hidden += ["factors", "tensor", *(repr(record.id) for record in SECRETS)]
    assert not any(part in repr(about) for part in hidden)
    written(folder, about)
    assert [file.name for file in tmp_path.glob("*edit*")] == ["edit"]
    (folder / "mine.txt").write_text("a note")
    for lose in (partial(written, folder, about), partial(edit_file.remove, folder)):
        with pytest.raises(ValueError, match="holds more than an edit"):
            lose()
    assert {file.name for file in folder.iterdir()} == names | {"mine.txt"}


def test_another_adapter_is_never_replaced_or_removed(base, tmp_path, refused):
    """Its files have the names of an edit's; so has a card without weights."""
    lora = get_peft_model(base().model, LoraConfig(r=2, target_modules=["q_proj"]))
    lora.save_pretrained(tmp_path / "theirs")
    (tmp_path / "card").mkdir()
    (tmp_path / "card" / edit_file.README).write_text("mine")
    about = made(base())[1]
    for folder in (tmp_path / "theirs", tmp_path / "card"):
        held = {file: file.read_bytes() for file in folder.iterdir()}
        for lose in (partial(written, folder, about), partial(edit_file.remove, folder)):
            with refused("holds files that are no edit of revs: name another folder"):
                lose()
        assert {file: file.read_bytes() for file in folder.iterdir()} == held


def test_an_edit_behind_a_link_is_replaced_and_removed(base, tmp_path):
    first, second = (made(base(), method=method)[1] for method in METHODS)
    (tmp_path / "edit").symlink_to(tmp_path / "far")
    for about in (first, second):
        assert edit_file.read(written(tmp_path / "edit", about)).method == about.method
        assert (tmp_path / "edit").is_symlink()
    assert edit_file.remove(tmp_path / "edit") and not (tmp_path / "far").exists()
    assert not edit_file.remove(tmp_path / "edit")


def test_an_edit_stays_if_another_cannot_take_its_place(base, tmp_path, monkeypatch, refused):
    first, second = (made(base(), method=method)[1] for method in METHODS)
    folder, rename = written(tmp_path / "edit", first), Path.replace

    def fails(path, target):
        if path.name.endswith("-new"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", fails)
    with refused("cannot be written to", OSError):
        written(folder, second)
    assert edit_file.read(folder) == first
    assert [file.name for file in tmp_path.glob("*edit*")] == ["edit"]


# --- refusals ------------------------------------------------------------------------------------


def test_an_edit_belongs_to_one_model_one_tokenizer_and_one_precision(base, refused):
    """Whatever does not fit is said before anything is changed."""
    decoder, retokenized, trained = base(), base(), base()
    _, about = made(decoder)
    retokenized.tokenizer.add_tokens(["941"])
    first = next(iter(about.factors))
    with torch.no_grad():
        trained.model.get_parameter(f"{first}.weight").add_(1e-6)
    pair = about.factors[first]
    precision = "with the precision float32, but llama-tied-0 has bfloat16"
    cases = [
        (base(seed=1), about, "with the weights"),
        (retokenized, about, "with the tokenizer"),
        (base(dtype="bfloat16"), about, precision),
        (decoder, about, "edited or trained since it was loaded"),
        (trained, about, "edited or trained since it was loaded"),
        (base(), replace(about, factors={"model.layers.9.mlp.down_proj": pair}), "does not have"),
        (base(), replace(about, factors={"../lm_head": pair}), "does not have"),
    ]
    for model, wrong, said in cases:
        before = weights(model)
        with refused(said):
            edit_file.apply(model, wrong)
        assert same_bits(model, before)


def test_a_folder_that_holds_no_edit_is_refused(base, tmp_path, refused):
    """Of something else, of another format; test_parsers.py has more."""
    whole = written(tmp_path / "edit", made(base())[1]) / edit_file.WEIGHTS
    tensors = load_file(whole)
    with safe_open(whole, "pt") as file:
        said_of = json.loads(file.metadata()["revs"])
    later = json.dumps(said_of | {"format": edit_file.FORMAT + 1})
    content = {"later": save(tensors, {"revs": later}), "foreign": save(tensors)}
    content |= {"deep": save(tensors, {"revs": "[" * 100_000})}
    for name in content:
        (tmp_path / name).mkdir()
        (tmp_path / name / edit_file.WEIGHTS).write_bytes(content[name])
        with refused("holds no edit in format"):
            edit_file.read(tmp_path / name)
    with refused("give the folder of an edit", FileNotFoundError):
        edit_file.read(tmp_path / "none")


def test_only_what_revs_added_can_be_saved(base, refused):
    """Random directions, zeroed columns, whole weights, nothing, a model that nothing pins."""
    decoder = base()
    whole = Edit(decoder)
    whole.keep_whole([name for name, _ in decoder.model.named_parameters()][:1])
    zeroed = zero.Hyperparameters(n=2, k=20, r_h=200, eps_r_h=20)
    for edit in (
        controls.unlearn(base(), targets(decoder), controls.Hyperparameters(**vars(HP))),
        zero.unlearn(base(), targets(decoder), zeroed),
        whole,
        Edit(decoder),
    ):
        with refused("This edit holds no moves"):
            edit_file.factors(edit, HP)
    with refused("Nothing pins the weights"):
        edit_file.saved_edit(replace(decoder, revision="unknown"), {}, "revs", HP, {}, {}, "")


# --- the edited model as a folder ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["llama-tied", "llama-untied", "gptj"])
@torch.no_grad()
def test_an_exported_folder_loads_to_equal_logits(base, tmp_path, kind):
    """Tied heads stay tied; the card has the base's hash and the numbers, and no id or secret."""
    decoder = base(kind, "bfloat16")
    edit, about = made(decoder)
    folder = export.export(edit, tmp_path / "edited", about)
    again, ids = load.load(str(folder), "bfloat16"), torch.tensor([[5, 17, 230, 41, 99]])
    assert torch.equal(again.model(input_ids=ids).logits, decoder.model(input_ids=ids).logits)
    tied = again.head.weight is again.model.get_input_embeddings().weight
    assert tied == (kind == "llama-tied")
    card = (folder / "README.md").read_text(encoding="utf-8")
    said = (about.model, about.tokenizer, "r_n = 240", "no proof of erasure", "Load the base model")
    assert all(one in card for one in said) and not list(folder.glob("*edit*"))
    hidden = [text for one in SECRETS for text in (one.id, one.prompt, one.secret)]
    assert not any(text in card for text in hidden)


def test_the_card_sums_up_ranks(base):
    """How many secrets are written before and after, and the median of their lowest ranks."""
    ranks = {"before": {"a": [0, 0], "b": [0, 0], "c": [0, 4]}}
    ranks |= {"after": {"a": [0, 0], "b": [30, 2], "c": [7, 900]}}
    card = export.card(replace(made(base())[1], **ranks))
    assert "| 2 of 3 | 1 of 3 |" in card and "| 0 | 30 |" in card


def test_only_what_the_edit_made_is_exported_and_nothing_is_overwritten(base, tmp_path, refused):
    (undone, about), (changed, _) = made(base()), made(base())
    undone.undo()
    with torch.no_grad():
        changed.decoder.neurons(0).add_(1.0)
    (tmp_path / "there").mkdir()
    for edit, folder, said in (
        (undone, "new", "apply the edit first"),
        (changed, "new", "apply the edit first"),
        (made(base(seed=1))[0], "new", "apply the edit first"),
        (changed, "there", "is there already"),
    ):
        with refused(said):
            export.export(edit, tmp_path / folder, about)
        assert not (tmp_path / "new").exists()
