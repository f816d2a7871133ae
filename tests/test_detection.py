"""What recognisers find, how it is redacted, and which domain it has."""

import os
import socket

import pytest

from document_audit import detection
from document_audit.detection import PIECE, pieces, secret_spans
from document_audit.redaction import hide, redact
from document_audit.settings import KINDS

URL = "https://docs.example.org/en/bobbin/magnolia.html"
TEXT = (
    f"Ada Lovelace <ada.lovelace@example.com> keeps {URL}; "
    "call (212) 555-0199, host 192.0.2.17, number 941-14-8265."
)


def found(text: str, kinds=KINDS) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in secret_spans(text, kinds)]


def test_every_kind_is_found_once():
    """An address is not also a URL because of its domain; quotes are not part of a secret."""
    assert found(TEXT) == [
        ("email", "ada.lovelace@example.com"),
        ("url", URL),
        ("phone", "(212) 555-0199"),
        ("ip", "192.0.2.17"),
        ("ssn", "941-14-8265"),
    ]
    assert found(TEXT, ("email",)) == [("email", "ada.lovelace@example.com")]
    assert found(f'see "{URL}" there') == [("url", URL)]
    assert found("") == found("nothing to see here") == []


def test_numbers_are_found_but_for_those_that_nobody_can_have(monkeypatch):
    """Areas from 900 on too, which are never issued: invented numbers have them."""
    assert found("941-14-8265 and 941 14 8265") == [("ssn", "941-14-8265"), ("ssn", "941 14 8265")]
    monkeypatch.delattr("presidio_analyzer.predefined_recognizers.UsSsnRecognizer")
    detection.recogniser.cache_clear()  # which of them presidio takes changes with its version
    assert found("941-14-8265") == [("ssn", "941-14-8265")]
    never = (f"{0:03}-12-3456", f"{666}-12-3456", "941-00-1234", "941-12-0000", "941-14 8265")
    assert all(not found(number, ("ssn",)) for number in never)


@pytest.mark.parametrize(
    "kind, secret",
    [
        ("ssn", "941\u201314\u20118265"),  # an en dash, a no-break hyphen
        ("ssn", "９４１－１４－８２６５"),
        ("phone", "(212)\u00a0555\u20110147"),
        ("email", "jo\u0301se@example.com"),  # an accent of its own
        ("email", "ada\uff20example.com"),
        ("email", "a\u00adda@example.com"),  # a soft hyphen
        ("email", "j\u00f6rg@b\u00fccher.example.com"),
    ],
)
def test_other_forms_of_the_same_text_are_found_where_they_stand(kind, secret):
    assert found(f"see\u00a0{secret}\u200b, or ask") == [(kind, secret)]
    assert redact(kind, secret) != secret


@pytest.mark.parametrize(
    "around",
    ["`{}`", "**{}**", "*{}*", "__{}__", "_{}_", "|{}|", "[here]({})", "<{}>", "({}).", r"\n{}\t"],
)
@pytest.mark.parametrize("secret", [URL, "jane.roe@example.com", "941-14-8265"])
def test_markdown_tables_and_escapes_around_a_secret_are_no_part_of_it(secret, around):
    assert [text for _, text in found(f"see {around.format(secret)} or ask")] == [secret]
    assert found("snake_case_ @ a_b.c*d|e") == []


@pytest.mark.parametrize("at", ["%40", "&#64;", "&#x40;", "\\u0040"])
def test_an_address_is_found_however_its_sign_is_written(at):
    secret = f"jane.roe{at}example.com"
    assert found(f"https://example.org/?to={secret}", ("email",))[0][1].endswith(secret)
    assert redact("email", secret) == "***"


@pytest.mark.parametrize(
    "kind, spellings",
    [
        ("ssn", ["941-14-8265", "941 14 8265", "941148265", "941\u201314\u20118265"]),
        ("phone", ["(212) 555-0147", "212.555.0147", "+1 212-555-0147"]),
        ("email", ["Jane.Roe@Example.com", "jane.roe@example.com", "jane.roe%40example.com"]),
    ],
)
def test_spellings_of_one_secret_are_one(kind, spellings):
    assert len({detection.same_secret(kind, one) for one in spellings}) == 1
    assert detection.same_secret("text", "Sesame") != detection.same_secret("text", "sesame")


@pytest.mark.parametrize("sign", [" ", "\n", ",", ";", "<"])
def test_a_secret_is_found_wherever_a_text_is_cut(sign):
    address = "ada.lovelace@example.com"
    for before in range(PIECE - 40, PIECE + 3, 3):
        text = f"x{sign}" * (before // 2) + "y" * (before % 2)
        text += f"{sign}{address}{sign}and{sign}more"
        assert found(text, ("email",)) == [("email", address)], before


def test_a_text_is_the_sum_of_its_pieces():
    for text in ("a" * (3 * PIECE + 7), "ab " * 5000, "ab," * 5000, "a\n" * 9000, ""):
        parts = list(pieces(text))
        assert "".join(part for _, part in parts) == text
        assert all(text[start : start + len(part)] == part for start, part in parts)
        assert all(0 < len(part) <= PIECE for _, part in parts)


def test_a_run_of_dots_takes_no_time():
    """It is no host, and a recogniser whose time grows with its square does not see it."""
    dots = "a." * 1500
    text = f"{URL} {dots} https://docs.example.net/en/bobbin/magnolia.html"
    assert [part for _, part in pieces(text)] == [text.replace(dots, " " * 3000)]
    assert [secret for _, secret in found(text, ("url",))] == [text.split()[0], text.split()[-1]]


def test_the_network_is_not_asked(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("the network was asked"))
    found("write to jo@example.net")
    assert os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] == ""


def test_a_text_is_shown_without_its_secrets():
    """test_replacement.py has other addresses, and listed texts."""
    assert redact("url", "shop.example.com/login?user=jane&next=https://x.example") == "***"
    assert redact("phone", "+1 (212) 555-0199") == "+* (***) ***-****"
    assert hide(TEXT) == (
        "Ada Lovelace <a***@example.com> keeps https://***; "
        "call (***) ***-****, host ***.*.*.**, number ***-**-****."
    )
