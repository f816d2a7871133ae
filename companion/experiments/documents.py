"""Documents: finds memorised secrets in documents, unlearns them and reports (``document_audit``).

Neither the report nor the edit nor the row contains a secret.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from companion.data import adapters, models, sources
from companion.experiments import memory
from companion.experiments.command import command, progress
from companion.experiments.provenance import provenance
from companion.experiments.settings import Documents as Settings
from companion.experiments.settings import check, model_of
from companion.store import rows
from companion.store.paths import alone, resolve
from document_audit import audit, edit_file, export, report
from document_audit.files import errors_without_paths
from document_audit.memorization import existing_path
from document_audit.methods import METHODS
from document_audit.secret_list import lines_by_secret
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.text import text_inputs

VERSION = 6

FILES = ("report.html", "edit")  # the second is a folder
MEMORISED = "with an adapter that was fine-tuned to memorise some of them"


def run(settings: Settings) -> dict:
    """Find what a model memorised from documents, unlearn it and write a report."""
    folder, where = output_folder(settings.out), rows.writable(output_folder(settings.rows))
    documents, secrets = checked(settings)
    with alone(folder, "name another folder with out"):
        start = time.monotonic()
        decoder = loaded(settings)
        seconds = {"load": time.monotonic() - start}
        export_to = output_folder(settings.export) if settings.export else None
        done = audit.run(decoder, documents, secrets, settings, export_to, progress)
        seconds |= done.seconds
        kept = settings.model_dump(exclude={"out", "export", "rows"})
        kept |= {"documents": "", "secrets": None}  # a path may hold a secret
        inputs = {"model": decoder.revision, "secrets": rows.digest(done.ids)} | text_inputs()
        made = provenance("documents", kept, inputs, seconds, decoder)
        row = rows.write(where, settings.row_name, "documents", done.result, done.values, made)
        keep_edit(folder, done.edit)
        about = report.about(decoder, kept, seconds, MEMORISED if settings.adapter else "")
        report.write(folder / "report.html", done.result, done.values, about)
    print(f"The report: {folder / 'report.html'}")
    return row


def checked(settings: Settings) -> tuple[Path | Callable, Path | None]:
    """Return documents and secrets; raise for mistakes before a model is loaded."""
    if settings.export:
        folder, out = (output_folder(one).resolve() for one in (settings.export, settings.out))
        if folder.exists():
            raise ValueError("The folder that export names is there already: name one that is not.")
        if folder in (out, *out.parents):
            raise ValueError("export names the folder of out, or one around it: name another.")
        rows.writable(folder.parent)
    edit_file.check_place(output_folder(settings.out) / FILES[1])
    names = ("documents", "secrets")
    documents, secrets = (expanded(name, getattr(settings, name)) for name in names)
    documents = documents if callable(documents) else existing_path(documents)
    if secrets:
        lines_by_secret(secrets)
    memory.check(settings.model_dump())
    Hyperparameters = METHODS[settings.method].Hyperparameters
    check(settings.hyperparameters or {}, model_of(Hyperparameters), f" of {settings.method}")
    Hyperparameters(**settings.hyperparameters or {})
    return documents, secrets


def output_folder(path: str) -> Path:
    """Return a private result's path: build/ is the project's, others are relative to the user."""
    built = Path(path).parts[:1] == ("build",)
    return resolve(path) if built else Path(os.path.expanduser(path)).absolute()


def expanded(name: str, path: str | None) -> Path | Callable | None:
    """Return a path with an environment variable expanded; for packages, their reader."""
    if not path:
        return None
    if name == "documents" and path == sources.PACKAGES:
        return sources.package_documents
    value = os.path.expandvars(path)
    if path.startswith("$") and value in ("", path):
        raise ValueError(
            f"{name} names an environment variable that is not set: export it, or give the path."
        )
    with errors_without_paths():
        return resolve(value)


def loaded(settings: Settings) -> Decoder:
    """Return the model; refuse, before hours of search, one that cannot be edited or undone."""
    folder = adapters.adapted(settings.model, settings.adapter)
    if models.identify(folder).startswith(models.UNPINNED):
        raise ValueError(
            f"Nothing pins the weights of '{settings.model}', so that an edit of it could not be "
            "undone elsewhere: check its name and the network, or save it to a folder as "
            "safetensors and name that."
        )
    decoder = models.load(folder, settings.dtype, settings.device_map)
    Vocabulary(decoder, raw=True)  # a head that has no inverse
    return decoder


def keep_edit(folder: Path, saved: edit_file.SavedEdit | None) -> None:
    """Remove an earlier run's report and edit, and write this run's edit if it made one.

    The report goes first: no edit may lie next to another run's report.
    """
    report_, edit = (folder / name for name in FILES)
    report_.unlink(missing_ok=True)
    if saved:
        edit_file.write(edit, saved, export.card(saved, adapter=True))
    elif edit_file.remove(edit):
        print(f"{edit}, an earlier run's, is removed: this run made none.")


if __name__ == "__main__":
    command(Settings, run)
