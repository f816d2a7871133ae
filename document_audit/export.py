"""Export an edited model as a folder that can be published, with a card that names no secret."""

from pathlib import Path

from document_audit.edit_file import SavedEdit
from document_audit.files import one_sentence_errors
from document_audit.report import render
from revs.method.edit import Edit
from revs.model import load


def export(edit: Edit, folder: str | Path, saved: SavedEdit) -> Path:
    """Writes the model with an edit in place, its tokenizer and README.md, a model card.

    The edit itself stays out. Raises ValueError, and writes nothing, if the edit was undone or the
    weights changed since, or the folder is there already.
    """
    folder, decoder = Path(folder), edit.decoder
    check_new(folder)
    if not (edit.products and edit.in_force() and decoder.revision == saved.model):
        raise ValueError(
            f"{decoder.name} is not what the edit makes of its model: apply the edit first."
        )
    with one_sentence_errors(folder.parent):
        load.save(decoder.model, decoder.tokenizer, folder, {"README.md": card(saved)})
    return folder


def check_new(folder: str | Path) -> None:
    """Raise ValueError if a folder is there already."""
    if Path(folder).exists():
        raise ValueError(f"{folder} is there already: name a folder that is not.")


def card(saved: SavedEdit, adapter: bool = False) -> str:
    """The card of an edited model, or of the adapter: numbers, and no token or item."""
    return render("card.md.j2", saved=saved, adapter=adapter)
