"""Write every synthetic set, and the documents that quote them, byte for byte: see each folder."""

from __future__ import annotations

from common import write
from documents import make as documents
from emails import make as emails
from ssn import make as ssn
from urls import make as urls

if __name__ == "__main__":
    for made in (ssn, emails, urls):
        write(made.HERE, made.build())
    documents.write(documents.HERE)
