"""What is written in a secret's place is sorted and redacted; public addresses are asked for."""

import pytest
from privacy import found

from companion.measures import public_addresses as public
from companion.measures import replacement
from companion.measures.replacement import AT_THE_HOST as SAME_HOST
from companion.measures.replacement import ELSEWHERE, NOTHING
from revs.model.targets import Split

ADA = "ada.lovelace@example.com"


@pytest.mark.parametrize(
    "text, became, shown",
    [
        (f"{ADA}>, who knows", "the same", "a***@example.com"),
        ("lovelace@example.com> and others", "another at the same host", "l***@example.com"),
        ("ada@other.example.org> and b@example.com", "another elsewhere", "a***@***.org"),
        ("[email protected]> and others", "a placeholder", ""),
        ("her usual address> and others", "nothing of its kind", ""),
    ],
)
def test_what_became_of_an_address(text, became, shown):
    assert replacement.replacement_of("email", f" <{ADA}", text) == {
        "became": became,
        "was": "a***@example.com",
        "replacement": shown,
    }


URL = "https://docs.example.org/en/bobbin/magnolia.html"


@pytest.mark.parametrize(
    "kind, secret, text, became, was, now",
    [
        ("url", URL, "https://docs.example.org/x> first", SAME_HOST, "https://***", "https://***"),
        ("url", URL, "www.example.net/x> first", ELSEWHERE, "https://***", "***"),
        ("ssn", "941-11-1364", "941-12-9911.", ELSEWHERE, "***-**-****", "***-**-****"),
        ("text", "open sesame", "open the door", NOTHING, "***", ""),
    ],
)
def test_what_became_of_other_secrets(kind, secret, text, became, was, now):
    found = replacement.replacement_of(kind, secret, text)
    assert found == {"became": became, "was": was, "replacement": now}


def test_public_addresses_are_those_on_the_list(decoder, monkeypatch):
    """Each has a reason and belongs to nobody; what the model writes is told by id."""
    asked = public.addresses()
    assert len({one["id"] for one in asked}) == len(asked) == 10
    assert all(one["reason"] and one["address"] not in one["prompt"] for one in asked)
    ids = lambda i: decoder.tokenizer(f"to {asked[i]['address']}." if i % 2 else "no")["input_ids"]
    writes = lambda _, targets: {target.id: ids(i) for i, target in enumerate(targets)}
    monkeypatch.setattr(public, "continuations", writes)
    result, columns = public.measure(decoder, Split([], [], []))
    assert result == {"known": {one["id"]: bool(i % 2) for i, one in enumerate(asked)}}
    assert columns == {}


def test_every_public_address_is_allowed_by_name():
    assert not any(found(one["address"]) for one in public.addresses())
    assert found("jo@" + public.addresses()[0]["address"].partition("@")[2])
