"""An edit as a file: applied again it gives the same bits, undone it leaves none, and what does not belong together is refused."""

import copy
import json
from dataclasses import replace

import pytest
import torch
from conftest import FAMILIES, build
from safetensors.torch import save_file
from test_method import same_bits, weights

from companion.own import artefact, difference, export, sealed, undo
from companion.runs import models
from revs.measures.evaluate import secret_ranks
from revs.method import controls, zero
from revs.method.algorithm import Hyperparameters, unlearn
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model import load
from revs.model.targets import Record, Target, encode

HP = Hyperparameters(n_max=5, k=24, r_h=200, eps_r_h=20, r_n=240, eps_r_n=12)
SECRETS = [
    Record(name, "ssn", name, f"The number of {name.title()} is ", number, ".")
    for name, number in (("ada", "941-14-8265"), ("bea", "935-27-1068"))
]
KINDS = [
    "llama-tied",
    "llama-untied",
    "gptj",
    "gpt2",
    "gemma2",
]  # tied or not, a bias, transposed, norms of its own after FF₂
DTYPES = ["float32", "bfloat16"]


@pytest.fixture
def base(tmp_path):
    """base(kind, dtype, seed): a tiny decoder as it is loaded from its folder, with the hash of its weights."""

    def loaded(kind="llama-tied", dtype="float32", seed=0):
        folder = tmp_path / f"{kind}-{seed}"
        if not folder.exists():
            made = build(kind, seed, torch.float32)
            load.save(made.model, made.tokenizer, folder)
        return models.load(str(folder), dtype)

    return loaded


def targets(decoder, records=SECRETS) -> list[Target]:
    return [encode(record, decoder.tokenizer) for record in records]


def made(decoder, records=SECRETS, hp=HP) -> tuple[Edit, artefact.Artefact]:
    """An edit, which stays on the decoder, and its artefact."""
    before = secret_ranks(decoder, targets(decoder, records))
    edit = unlearn(decoder, targets(decoder, records), hp)
    return edit, artefact.of(edit, hp, before, secret_ranks(decoder, targets(decoder, records)))


# The same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("projection", ["norm", "raw"])
@pytest.mark.parametrize(
    "kind, dtype",
    [*((kind, "float32") for kind in FAMILIES), *((kind, "bfloat16") for kind in KINDS)],
)
def test_applied_again_it_gives_the_same_bits_and_undone_it_leaves_none(
    base, tmp_path, kind, dtype, projection
):
    """On a fresh copy, from the file; the Edit that comes back has the same moves, in the same order."""
    decoder, fresh = base(kind, dtype), base(kind, dtype)
    plain = weights(fresh)
    edit, made_of = made(decoder, hp=replace(HP, projection=projection))
    found = artefact.read(artefact.write(tmp_path / "edit.safetensors", made_of))
    assert found == made_of and any(c < 0 for *_, c in found.moves)
    assert found.directions.keys() == made_of.directions.keys() and all(
        torch.equal(d_t, made_of.directions[place]) for place, d_t in found.directions.items()
    )
    again = artefact.apply(fresh, found)
    assert (
        same_bits(fresh, weights(decoder))
        and not same_bits(fresh, plain)
        and again.moves == edit.moves
    )
    again.undo()
    assert same_bits(fresh, plain)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_neuron_that_moves_twice_for_one_token_in_one_layer_is_rounded_twice(base, dtype):
    """Moves are made many at a time; a neuron that comes again begins a new run."""
    decoder, fresh = base(dtype=dtype), base(dtype=dtype)
    vocabulary, edit = Vocabulary(decoder), Edit(decoder)
    for neurons, c in (([3, 5], [-1.3, -0.7]), ([5, 9], [-0.11, -2.9]), ([5], [0.0])):
        edit.move(1, torch.tensor(neurons), torch.tensor(c), 7, vocabulary.step(1, 7))
    artefact.apply(fresh, made_of := artefact.of(edit, HP, {}, {}))
    assert same_bits(fresh, weights(decoder))
    assert [list(moved) for _, _, moved in artefact.runs(made_of.moves)] == [[3, 5], [5, 9], [5]]


def test_the_file_is_small_and_has_no_text_of_the_secrets(base, tmp_path):
    """Twenty bytes a move, one direction a token, and a header; ids and ranks, no secret, no prompt; for its owner alone."""
    decoder = base()
    file = artefact.write(tmp_path / "edit.safetensors", made(decoder)[1])
    content = file.read_bytes()
    assert len(content) < 8_000 and file.stat().st_mode & 0o777 == 0o600
    for record in SECRETS:
        assert record.id.encode() in content
        for part in (record.prompt, record.secret, record.id.title()):
            assert part.encode() not in content
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["edit.safetensors"]


def test_an_edit_needs_no_vocabulary_to_be_applied(base, monkeypatch):
    """The directions are its own: another machine, whose solver rounds otherwise, gets the same bits."""
    decoder, fresh = base("gemma2"), base("gemma2")
    _, made_of = made(decoder)
    assert len(made_of.directions) > len(
        {t for _, _, t, _ in made_of.moves}
    )  # its layers have norms of their own after FF₂
    monkeypatch.setattr(Vocabulary, "direction", None)
    artefact.apply(fresh, made_of)
    assert same_bits(fresh, weights(decoder))


def test_what_is_printed_of_an_edit_tells_no_token(base):
    _, made_of = made(base())
    said = repr(made_of)
    assert (
        made_of.model in said
        and not any(record.id in said for record in SECRETS)
        and "moves" not in said
        and "tensor" not in said
    )


# Undo without the process that made the edit ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_undo_file_gives_every_bit_back(base, tmp_path, kind, dtype):
    """To the edited model as it was saved and loaded; the file comes from the run, or from the base and the artefact."""
    decoder, plain = base(kind, dtype), weights(base(kind, dtype))
    edit, made_of = made(decoder)
    files = [
        undo.save(tmp_path / "run", edit),
        undo.save(tmp_path / "base", artefact.apply(base(kind, dtype), made_of)),
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    edited = models.load(str(export.export(decoder, tmp_path / "edited", made_of)), dtype)
    assert not same_bits(edited, plain)
    undo.restore(edited, files[0])
    assert same_bits(edited, plain)


def test_the_undo_file_fits_the_edited_model_only(base, tmp_path, one_sentence):
    decoder = base()
    edit, _ = made(decoder)
    file = undo.save(tmp_path / "undo", edit)
    again = copy.deepcopy(decoder)
    with torch.no_grad():
        again.neurons(edit.moves[-1][0])[:, edit.moves[-1][1]] += 1
    for other in (
        base(),
        base(dtype="bfloat16"),
        base("gptj"),
        build("llama-tied", num_hidden_layers=1),
        build("llama-tied", intermediate_size=8),
        again,
    ):
        before = weights(other)
        with pytest.raises(ValueError, match="is not the model that the edit left") as error:
            undo.restore(other, file)
        assert one_sentence(error) and same_bits(other, before)


# Refusals --------------------------------------------------------------------------------------------------------


def test_an_edit_belongs_to_one_model_one_tokenizer_and_one_precision(base, one_sentence):
    """Whatever does not fit is said before anything is changed."""
    decoder = base()
    _, made_of = made(decoder)
    retokenized = base()
    retokenized.tokenizer.add_tokens(["941"])
    place = made_of.moves[0]
    cases = [
        (base(seed=1), made_of, "with the weights"),
        (retokenized, made_of, "with the tokenizer"),
        (
            base(dtype="bfloat16"),
            made_of,
            "with the precision float32, but llama-tied-0 has bfloat16",
        ),
        (decoder, made_of, "has been edited since it was loaded"),
        (base(), replace(made_of, edited="0" * 64), "came out with other bits"),
        (base(), replace(made_of, directions={}), "lacks the direction"),
        (
            base(),
            replace(
                made_of, directions={place: d_t[1:] for place, d_t in made_of.directions.items()}
            ),
            "of another width",
        ),
        *(
            (base(), replace(made_of, moves=[*made_of.moves, wrong]), "does not have")
            for wrong in ((3, *place[1:]), (0, 64, *place[2:]), (0, 0, 300, -1.0), (0, -1, 0, -1.0))
        ),
    ]
    for model, wrong, said in cases:
        before = weights(model)
        with pytest.raises(ValueError, match=said) as error:
            artefact.apply(model, wrong)
        assert one_sentence(error) and same_bits(model, before)


def test_a_file_that_is_not_an_edit_is_refused(base, tmp_path, monkeypatch, one_sentence):
    """Cut short, of something else, of another format, with a part missing: one sentence each."""
    edit, made_of = made(base())
    whole = artefact.write(tmp_path / "edit", made_of)
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:-9])
    (tmp_path / "text").write_text("no tensors here")
    save_file({"a": torch.zeros(2)}, tmp_path / "foreign")
    undo.save(tmp_path / "undo", edit)
    tensors, about = sealed.unpack(whole, artefact.KIND)
    sealed.pack(tmp_path / "part", artefact.KIND, {"c": tensors["c"]}, about)
    sealed.pack(tmp_path / "uneven", artefact.KIND, tensors | {"c": tensors["c"][1:]}, about)
    sealed.pack(tmp_path / "field", artefact.KIND, tensors, {"model": "m"})
    monkeypatch.setitem(sealed.FORMATS, artefact.KIND, 3)
    artefact.write(tmp_path / "later", made_of)
    monkeypatch.undo()
    for name, said in (
        ("cut", "is cut short"),
        ("text", "is cut short"),
        ("foreign", "does not hold an edit"),
        ("undo", "does not hold an edit"),
        ("part", "lacks a part"),
        ("uneven", "lacks a part"),
        ("field", "lacks a part"),
        ("later", "is of format 3, but this version reads format 2"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            artefact.read(tmp_path / name)
        assert one_sentence(error)
    with pytest.raises(FileNotFoundError):
        artefact.read(tmp_path / "none")


def test_only_moves_can_be_saved(base, one_sentence):
    """Random directions, zeroed columns, whole weights, nothing at all, a model that nothing pins: refused in one sentence."""
    decoder = base()
    whole = Edit(decoder)
    whole.keep_whole([name for name, _ in decoder.model.named_parameters()][:1])
    unpinned = made(base())[0]
    unpinned.decoder = replace(unpinned.decoder, revision="unknown")
    for edit, said in [
        (controls.unlearn(base(), targets(decoder), HP), "can be saved with save_pretrained"),
        (
            zero.unlearn(
                base(), targets(decoder), zero.Hyperparameters(n=2, k=20, r_h=200, eps_r_h=20)
            ),
            "can be saved with save_pretrained",
        ),
        (whole, "can be saved with save_pretrained"),
        (Edit(decoder), "holds no moves"),
        (unpinned, "Nothing pins the weights"),
    ]:
        with pytest.raises(ValueError, match=said) as error:
            artefact.of(edit, HP, {}, {})
        assert one_sentence(error)
    with pytest.raises(ValueError, match="did not change single columns") as error:
        undo.save("nowhere", whole)
    assert one_sentence(error)


# Several edits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_combination_equals_one_edit_after_the_other(base, tmp_path, dtype):
    """Bit for bit, columns of both included; what is not known of it is left out."""
    parts = [made(base(dtype=dtype), [record])[1] for record in SECRETS]
    together = artefact.combine(parts)
    at_once, one_by_one = base(dtype=dtype), base(dtype=dtype)
    edit = artefact.apply(at_once, artefact.read(artefact.write(tmp_path / "both", together)))
    for part in parts:
        artefact.apply(one_by_one, part, exact=False)
    assert same_bits(at_once, weights(one_by_one))
    places = [{(l, n) for l, n, *_ in part.moves} for part in parts]
    assert together.shared == len(places[0] & places[1]) > 0
    assert (
        set(together.before) == {"ada", "bea"} and together.after == {} and together.edited is None
    )
    edit.undo()
    assert same_bits(at_once, weights(base(dtype=dtype)))


def test_edits_of_different_models_cannot_be_combined(base, one_sentence):
    _, first = made(base())
    rounded = replace(
        first, directions={place: d_t + 1e-7 for place, d_t in first.directions.items()}
    )
    for parts, said in (
        ([first, rounded], "Edit 2 has another direction for a token"),
        ([], "nothing to combine"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            artefact.combine(parts)
        assert one_sentence(error)
    for other, said in (
        (made(base(seed=1))[1], "weights"),
        (made(base(dtype="bfloat16"))[1], "precision"),
        (made(base(), hp=replace(HP, projection="raw"))[1], "projection"),
        (replace(first, tokenizer="0"), "tokenizer"),
    ):
        with pytest.raises(ValueError, match=f"Edit 2 has not the {said} of the first") as error:
            artefact.combine([first, other])
        assert one_sentence(error)


# The edited model as a folder ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["llama-tied", "llama-untied", "gptj"])
@torch.no_grad()
def test_an_exported_folder_loads_to_equal_logits(base, tmp_path, kind, dtype):
    """Tied heads stay tied; the card has the base's hash and the numbers, and no id, token or secret."""
    decoder = base(kind, dtype)
    _, made_of = made(decoder)
    folder = export.export(decoder, tmp_path / "edited", made_of)
    again, ids = models.load(str(folder), dtype), torch.tensor([[5, 17, 230, 41, 99]])
    assert torch.equal(again.model(input_ids=ids).logits, decoder.model(input_ids=ids).logits)
    assert (again.head.weight is again.model.get_input_embeddings().weight) == (
        kind == "llama-tied"
    )
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert (
        made_of.model in card
        and made_of.tokenizer in card
        and "r_n = 240" in card
        and "no proof of erasure" in card
    )
    assert not any(
        text in card for record in SECRETS for text in (record.id, record.prompt, record.secret)
    ) and not list(folder.glob("*edit*"))


def test_the_card_sums_up_the_ranks(base):
    """How many secrets are written before and after, and the median of their lowest ranks; a combination was not measured."""
    made_of = replace(
        made(base())[1],
        before={"a": [0, 0], "b": [0, 0], "c": [0, 4]},
        after={"a": [0, 0], "b": [30, 2], "c": [7, 900]},
    )
    card = export.card("m", made_of)
    assert "| 2 of 3 | 1 of 3 |" in card and "| 0 | 30 |" in card
    assert "| 2 of 3 | not measured |" in export.card("m", artefact.combine([made_of]))


def test_only_what_the_edit_made_is_exported_and_nothing_is_overwritten(
    base, tmp_path, one_sentence
):
    edit, made_of = made(base())
    (tmp_path / "there").mkdir()
    for decoder, folder, said in (
        (base(), "new", "apply the edit first"),
        (edit.decoder, "there", "is there already"),
        (replace(edit.decoder, revision="0"), "new", "apply the edit first"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            export.export(decoder, tmp_path / folder, made_of)
        assert one_sentence(error) and not (tmp_path / "new").exists()


# What the difference tells ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("projection", ["norm", "raw"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_difference_of_two_checkpoints_names_the_tokens(base, kind, projection):
    """A column that moved for one token lies on that token's direction; the columns found are those that changed."""
    decoder, plain = base(kind), base(kind)
    assert difference.recover(plain, base(kind)).empty
    edit, _ = made(decoder, hp=replace(HP, projection=projection))
    moved = {}
    for l, n, t, c in edit.moves:
        moved.setdefault((l, n), set()).update({t} if c < 0 else ())
    found = difference.recover(decoder, plain, raw=projection == "raw").set_index(
        ["layer", "neuron"]
    )
    assert set(found.index) == {place for place, tokens in moved.items() if tokens}
    alone = {place: tokens for place, tokens in moved.items() if len(tokens) == 1}
    assert alone and all(
        {found.loc[place, "token"]} == tokens and found.loc[place, "cosine"] > 0.999
        for place, tokens in alone.items()
    )


def test_a_random_edit_points_at_no_token(base):
    """The same columns changed in random directions: the best direction is far from all of them."""
    decoder, plain = base(), base()
    controls.unlearn(decoder, targets(decoder), HP)
    found = difference.recover(decoder, plain)
    assert len(found) and (found["cosine"] < 0.99).all()


def test_metadata_are_readable_without_this_project(base, tmp_path):
    """The header is JSON: what the edit belongs to, with what and when it was made."""
    file = artefact.write(tmp_path / "edit", made_of := made(base())[1])
    content = file.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    said = json.loads(header["revs"])
    about = said["about"]
    assert (
        said["format"] == 2
        and about["model"] == made_of.model
        and about["versions"]["torch"]
        and "no proof" in about["statement"]
    )
