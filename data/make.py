"""Write every synthetic set, and the documents that quote them, byte for byte: see each folder."""

import importlib

from common import write
from documents import make as documents

FOLDERS = ("ssn", "emails", "urls", "ssn-shared", "emails-shared")

if __name__ == "__main__":
    for folder in FOLDERS:
        made = importlib.import_module(f"{folder}.make")
        write(made.HERE, made.build())
    documents.write(documents.HERE)
