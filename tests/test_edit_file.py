"""An edit as a file: applied again it gives the same bits, undone it leaves none, and what does not
belong together is refused."""

import json
from dataclasses import replace

import pytest
import torch
from conftest import FAMILIES, build, same_bits, weights
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from document_audit import edit_file, export
from revs.measures.evaluate import secret_ranks
from revs.method import controls, zero
from revs.method.algorithm import Hyperparameters, unlearn
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model import load
from revs.model.targets import Record, Target, encode

HP = Hyperparameters(n_max=5, k=24, r_h=200, eps_r_h=20, r_n=240, eps_r_n=12)
RANDOM = controls.Hyperparameters(**vars(HP))
SECRETS = [
    Record(name, "ssn", name, f"The number of {name.title()} is ", number, ".")
    for name, number in (("ada", "941-14-8265"), ("bea", "935-27-1068"))
]
# tied or not, a bias, transposed, norms of its own after FF₂
KINDS = ["llama-tied", "llama-untied", "gptj", "gpt2", "gemma2"]
DTYPES = ["float32", "bfloat16"]


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


def made(decoder, records=SECRETS, hp=HP) -> tuple[Edit, edit_file.SavedEdit]:
    """An edit, which stays on the decoder, and what a file holds of it."""
    before = secret_ranks(decoder, targets(decoder, records))
    edit = unlearn(decoder, targets(decoder, records), hp)
    return edit, edit_file.saved_edit(
        edit, hp, before, secret_ranks(decoder, targets(decoder, records))
    )


# --- the same bits -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, dtype, projection",
    [
        *((kind, "float32", "norm") for kind in FAMILIES),
        *((kind, "bfloat16", "raw") for kind in KINDS),
    ],
)
def test_applied_again_it_gives_the_same_bits_and_undone_it_leaves_none(
    base, tmp_path, monkeypatch, kind, dtype, projection
):
    """On a fresh copy, from the file alone: another machine, whose solver rounds otherwise, gets
    the same bits. The Edit that comes back has the same moves, in the same order."""
    decoder, fresh = base(kind, dtype), base(kind, dtype)
    plain = weights(fresh)
    edit, about = made(decoder, hp=replace(HP, projection=projection))
    found = edit_file.read(edit_file.write(tmp_path / "edit.safetensors", about))
    assert found == about and any(c < 0 for *_, c in found.moves)
    assert found.directions.keys() == about.directions.keys()
    assert all(map(torch.equal, found.directions.values(), about.directions.values()))
    monkeypatch.setattr(Vocabulary, "direction", None)
    again = edit_file.apply(fresh, found)
    assert same_bits(fresh, weights(decoder)) and not same_bits(fresh, plain)
    assert again.moves == edit.moves
    again.undo()
    assert same_bits(fresh, plain)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_neuron_that_moves_twice_for_one_token_in_one_layer_is_rounded_twice(base, dtype):
    """Moves are made many at a time; a neuron that comes again begins a new run."""
    decoder, fresh = base(dtype=dtype), base(dtype=dtype)
    vocabulary, edit = Vocabulary(decoder), Edit(decoder)
    for neurons, c in (([3, 5], [-1.3, -0.7]), ([5, 9], [-0.11, -2.9]), ([5], [0.0])):
        edit.move(1, torch.tensor(neurons), torch.tensor(c), 7, vocabulary.step(1, 7))
    about = edit_file.saved_edit(edit, HP, {}, {})
    edit_file.apply(fresh, about)
    assert same_bits(fresh, weights(decoder))
    assert [list(moved) for _, _, moved in edit_file.joint_moves(about.moves)] == [
        [3, 5],
        [5, 9],
        [5],
    ]


def test_the_file_is_small_says_what_it_is_and_has_no_text_of_the_secrets(base, tmp_path):
    """Twenty bytes a move, one direction a token, and a header in JSON, for its owner alone; what
    is printed of it tells no token."""
    file = edit_file.write(tmp_path / "edit.safetensors", about := made(base())[1])
    content = file.read_bytes()
    assert len(content) < 8_000 and file.stat().st_mode & 0o777 == 0o600
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    said = json.loads(header["revs"])
    assert said["format"] == 3 and said["about"]["model"] == about.model
    assert said["about"]["versions"]["torch"] and "no proof" in said["about"]["statement"]
    hidden = [part for one in SECRETS for part in (one.prompt, one.secret, one.id.title())]
    assert not any(part.encode() in content for part in hidden)
    assert about.model in repr(about)
    hidden += ["moves", "tensor", *(record.id for record in SECRETS)]
    assert not any(part in repr(about) for part in hidden)


# --- refusals ------------------------------------------------------------------------------------


def test_an_edit_belongs_to_one_model_one_tokenizer_and_one_precision(base, one_sentence):
    """Whatever does not fit is said before anything is changed."""
    decoder, retokenized = base(), base()
    _, about = made(decoder)
    retokenized.tokenizer.add_tokens(["941"])
    place = about.moves[0]
    narrow = {at: d_t[1:] for at, d_t in about.directions.items()}
    precision = "with the precision float32, but llama-tied-0 has bfloat16"
    wrong_moves = ((3, *place[1:]), (0, 64, *place[2:]), (0, 0, 300, -1.0), (0, -1, 0, -1.0))
    cases = [
        (base(seed=1), about, "with the weights"),
        (retokenized, about, "with the tokenizer"),
        (base(dtype="bfloat16"), about, precision),
        (decoder, about, "has been edited since it was loaded"),
        (base(), replace(about, edited="0" * 64), "came out with other bits"),
        (base(), replace(about, directions={}), "lacks a direction"),
        (base(), replace(about, directions=narrow), "lacks a direction"),
        *(
            (base(), replace(about, moves=[*about.moves, wrong]), "does not have")
            for wrong in wrong_moves
        ),
    ]
    for model, wrong, said in cases:
        before = weights(model)
        with pytest.raises(ValueError, match=said) as error:
            edit_file.apply(model, wrong)
        assert one_sentence(error) and same_bits(model, before)


def test_a_file_that_is_not_an_edit_is_refused(base, tmp_path, one_sentence):
    """Cut short, of something else, of another format, with a part missing: one sentence each."""
    edit, about = made(base())
    whole = edit_file.write(tmp_path / "edit", about)
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:-9])
    save_file({"a": torch.zeros(2)}, tmp_path / "foreign")
    tensors = load_file(whole)
    with safe_open(whole, "pt") as file:
        said_of = json.loads(file.metadata()["revs"])
    wrong = {
        "part": ({"c": tensors["c"]}, {}),
        "uneven": (tensors | {"c": tensors["c"][1:]}, {}),
        "field": (tensors, {"about": {"model": "m"}}),
        "later": (tensors, {"format": edit_file.FORMAT + 1}),
    }
    for name, (parts, more) in wrong.items():
        save_file(parts, tmp_path / name, {"revs": json.dumps(said_of | more)})
    for name, said in (
        ("cut", "is cut short"),
        ("foreign", "does not hold an edit"),
        ("part", "lacks a part"),
        ("uneven", "lacks a part"),
        ("field", "lacks a part"),
        ("later", "does not hold an edit in format 3"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            edit_file.read(tmp_path / name)
        assert one_sentence(error)
    with pytest.raises(FileNotFoundError):
        edit_file.read(tmp_path / "none")


def test_only_moves_can_be_saved(base, one_sentence):
    """Random directions, zeroed columns, whole weights, nothing, a model that nothing pins."""
    decoder, unpinned = base(), made(base())[0]
    whole = Edit(decoder)
    whole.keep_whole([name for name, _ in decoder.model.named_parameters()][:1])
    unpinned.decoder = replace(unpinned.decoder, revision="unknown")
    zeroed = zero.Hyperparameters(n=2, k=20, r_h=200, eps_r_h=20)
    for edit, said in [
        (controls.unlearn(base(), targets(decoder), RANDOM), "save the model with save_pretrained"),
        (zero.unlearn(base(), targets(decoder), zeroed), "save the model with save_pretrained"),
        (whole, "save the model with save_pretrained"),
        (Edit(decoder), "This edit holds no moves"),
        (unpinned, "Nothing pins the weights"),
    ]:
        with pytest.raises(ValueError, match=said) as error:
            edit_file.saved_edit(edit, HP, {}, {})
        assert one_sentence(error)


# --- the edited model as a folder ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["llama-tied", "llama-untied", "gptj"])
@torch.no_grad()
def test_an_exported_folder_loads_to_equal_logits(base, tmp_path, kind):
    """Tied heads stay tied; the card has the base's hash and the numbers, and no id or secret."""
    decoder = base(kind, "bfloat16")
    _, about = made(decoder)
    folder = export.export(decoder, tmp_path / "edited", about)
    again, ids = load.load(str(folder), "bfloat16"), torch.tensor([[5, 17, 230, 41, 99]])
    assert torch.equal(again.model(input_ids=ids).logits, decoder.model(input_ids=ids).logits)
    tied = again.head.weight is again.model.get_input_embeddings().weight
    assert tied == (kind == "llama-tied")
    card = (folder / "README.md").read_text(encoding="utf-8")
    said = (about.model, about.tokenizer, "r_n = 240", "no proof of erasure")
    assert all(one in card for one in said) and not list(folder.glob("*edit*"))
    hidden = [text for one in SECRETS for text in (one.id, one.prompt, one.secret)]
    assert not any(text in card for text in hidden)


def test_the_card_sums_up_ranks_and_moved_columns(base):
    """How many secrets are written before and after, and the median of their lowest ranks; a column
    that moved by nothing is not counted."""
    ranks = {"before": {"a": [0, 0], "b": [0, 0], "c": [0, 4]}}
    ranks |= {"after": {"a": [0, 0], "b": [30, 2], "c": [7, 900]}}
    about = replace(made(base())[1], **ranks)
    moves = [(0, 3, 7, -1.0), (0, 3, 9, 0.0), (0, 4, 7, 0.0), (2, 3, 7, -2.0), (2, 5, 7, -2.0)]
    card = export.card("m", replace(about, moves=moves))
    assert "| 2 of 3 | 1 of 3 |" in card and "| 0 | 30 |" in card
    assert "| Columns of FF₂ moved | 3, in 2 layers |" in card


def test_only_what_the_edit_made_is_exported_and_nothing_is_overwritten(
    base, tmp_path, one_sentence
):
    edit, about = made(base())
    (tmp_path / "there").mkdir()
    for decoder, folder, said in (
        (base(), "new", "apply the edit first"),
        (edit.decoder, "there", "is there already"),
        (replace(edit.decoder, revision="0"), "new", "apply the edit first"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            export.export(decoder, tmp_path / folder, about)
        assert one_sentence(error) and not (tmp_path / "new").exists()


# --- what the difference tells -------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, projection", [*((kind, "norm") for kind in KINDS), (KINDS[0], "raw")]
)
def test_the_difference_of_two_checkpoints_names_the_tokens(base, kind, projection):
    """A column that moved for one token lies on that token's direction."""
    decoder, plain = base(kind), base(kind)
    assert export.recover(plain, base(kind)).empty
    edit, _ = made(decoder, hp=replace(HP, projection=projection))
    moved = {}
    for l, n, t, c in edit.moves:
        moved.setdefault((l, n), set()).update({t} if c < 0 else ())
    found = export.recover(decoder, plain, raw=projection == "raw")
    found = found.set_index(["layer", "neuron"])
    assert set(found.index) == {place for place, tokens in moved.items() if tokens}
    alone = {place: tokens for place, tokens in moved.items() if len(tokens) == 1}
    assert alone and all(
        {found.loc[place, "token"]} == tokens and found.loc[place, "cosine"] > 0.999
        for place, tokens in alone.items()
    )


def test_a_random_edit_points_at_no_token(base):
    """The same columns changed in random directions: the best one is far from all of them."""
    decoder, plain = base(), base()
    controls.unlearn(decoder, targets(decoder), RANDOM)
    found = export.recover(decoder, plain)
    assert len(found) and (found["cosine"] < 0.99).all()
