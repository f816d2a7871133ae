"""No secret of a real person is in the repository, and the search for them finds what is there."""

import subprocess

import pandas as pd
import privacy
import pytest

from companion.store.paths import ROOT

# "¦" keeps each from being found in this file
FOUND = {
    "e-mail address": "write to <jane.roe@¦family.test>; jane.roe%40¦family.test; jane&#64;¦family."
    "test; jane\\u0040¦family.test; josé@¦family.test; jane_@¦family.test; jane%2540¦family.test; "
    'jane\\x40¦family.test; href="mailto:jane@¦family.test"; jane@¦müller.test; jane (at) ¦family.'
    'test; jane[at]¦family[dot]test; jane @ ¦family.test; "jane"@¦family.test; jane=40¦family.'
    "test; jane\uff20¦family.test; ja\u00adne@¦family.test",
    "social security number": "number 000-12-¦3456.; 934-50-¦0000",
    "telephone number": "call (012) 736-¦5000; +1 012-736-¦5000; +1012736¦5000; (012)736-¦5000; "
    "012 736 ¦5000; 1-012-736-¦5000; +49 ¦30 0000 0000; +44 ¦20 7946 5000; +44¦2079465000; "
    "+1 012736¦5000; (012) 736¦5000; 0049 ¦30 0000 0000; +33 1 00 ¦00 00 00; 01 00 00 ¦00 00; "
    "030/¦0000000",
    "URL with a user": "https:¦//jane:secret¦@host.test/x; http://www.host.test/¦~jane/; "
    "ssh:¦//jane¦@host.test/x; //host.test/¦~jane",
}
ALLOWED = (
    "ada@example.com; ada@mail.example.org; lewis.david@email.com; 941-14-8265; 123-45-6789; "
    "(212) 555-0147; https://docs.example.org/a/b; 2026-11-20; 10-20-2030; v1.2.3-456; "
    "@pytest.mark.parametrize; {cite:t}`ashuach2025revs`; 1234-56-78901; +2.1234; +3.1415926; "
    "+300000; +64 128 256; 123.456 2024; M 231.453 1012.5; doi:10.1109/123.456.7890; "
    "2026-11-21T15:13:02+00:00; 100.200 3000; logits @ head.weight; self.weight @ other.grad; "
    "00 11 22 33 44; ssh://git@github.com/ada/x.git; 1 2 3 4 5 6"
)


def committed() -> list[str]:
    """Every file under version control."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a clone")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def text_of(name: str) -> str:
    """What can be read in a file: of tables the columns of text, of weights nothing."""
    if name.endswith(".safetensors"):
        return ""
    if name.endswith(".parquet"):
        frame = pd.read_parquet(ROOT / name)
        return "\n".join(v for column in frame for v in frame[column] if isinstance(v, str))
    return (ROOT / name).read_bytes().decode("utf-8", errors="ignore")


def test_no_file_of_the_repository_has_one():
    hits = {name: found for name in committed() if (found := privacy.found(text_of(name)))}
    assert not hits


@pytest.mark.parametrize("what", FOUND)
def test_the_search_finds(what):
    for text in FOUND[what].replace("¦", "").split("; "):
        assert what in [kind for kind, _ in privacy.found(text)], text


def test_what_is_nobodys_is_allowed():
    assert not [text for text in ALLOWED.split("; ") if privacy.found(text)]
