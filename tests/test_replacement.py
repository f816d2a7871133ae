"""What is written in a secret's place is sorted and redacted; public addresses are asked for."""

import pytest
from privacy import found

from companion.measures import public_addresses as public
from companion.measures import replacement
from companion.measures.replacement import AT_THE_HOST as SAME_HOST
from companion.measures.replacement import ELSEWHERE, NOTHING
from revs.model.targets import Split

ADA = "ada.lovelace@example.com"


URL = "https://docs.example.org/en/bobbin/magnolia.html"
WAS = {"email": "a***@example.com", "url": "https://***", "ssn": "***-**-****", "text": "***"}
SECRETS = {"email": f" <{ADA}", "url": URL, "ssn": "941-11-1364", "text": "open sesame"}


@pytest.mark.parametrize(
    "kind, text, became, now",
    [
        ("email", f"{ADA}>, who knows", "the same", "a***@example.com"),
        ("email", "lovelace@example.com> and others", SAME_HOST, "l***@example.com"),
        ("email", "ada@other.example.org> and b@example.com", ELSEWHERE, "a***@***.org"),
        ("email", "[email protected]> and others", "a placeholder", ""),
        ("email", "her usual address> and others", NOTHING, ""),
        ("url", "https://docs.example.org/x> first", SAME_HOST, "https://***"),
        ("url", "www.example.net/x> first", ELSEWHERE, "***"),
        ("ssn", "941-12-9911.", ELSEWHERE, "***-**-****"),
        ("text", "open the door", NOTHING, ""),
    ],
)
def test_what_became_of_a_secret(kind, text, became, now):
    found = replacement.replacement_of(kind, SECRETS[kind], text)
    assert found == {"became": became, "was": WAS[kind], "replacement": now}


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
