"""What is written in a secret's place is sorted and redacted; public addresses are asked for and counted."""

import json

import pytest
from conftest import build
from privacy import found

from companion.record.paths import ROOT
from companion.runs import public
from revs.measures import instead
from revs.model.targets import Split, Target

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
    assert instead.told("email", f" <{ADA}", text) == {
        "became": became,
        "was": "a***@example.com",
        "instead": shown,
    }


def test_what_became_of_other_secrets():
    url = "https://docs.example.org/en/bobbin/magnolia.html"
    assert (
        instead.told("url", url, "https://docs.example.org/en/other.html> first")["became"]
        == "another at the same host"
    )
    assert instead.told("url", url, "www.example.net/x> first") == {
        "became": "another elsewhere",
        "was": "https://***",
        "instead": "***",
    }
    assert instead.told("ssn", "941-11-1364", "941-12-9911.") == {
        "became": "another elsewhere",
        "was": "***-**-****",
        "instead": "***-**-****",
    }
    assert instead.told("text", "open sesame", "open the door") == {
        "became": "nothing of its kind",
        "was": "***",
        "instead": "",
    }


def test_every_unlearned_secret_is_sorted_once(decoder):
    targets = [
        Target(
            name,
            "email",
            name,
            decoder.tokenizer(f"{name} <")["input_ids"],
            decoder.tokenizer(ADA)["input_ids"],
            (0, 1),
        )
        for name in "abc"
    ]
    result, columns = instead.measure(decoder, Split(targets[:2], [], targets[2:]))
    assert (
        set(columns) == {"a", "b"}
        and sum(result.values()) == 2
        and list(result) == list(instead.BECAME)
    )


def test_public_addresses_are_those_on_the_list(decoder, monkeypatch):
    """Each has a reason and belongs to nobody; what the model writes is told by id."""
    asked = public.addresses()
    assert len({one["id"] for one in asked}) == len(asked) == 10 and all(
        one["reason"] and one["address"] not in one["prompt"] for one in asked
    )
    monkeypatch.setattr(
        public.evaluate,
        "continuations",
        lambda decoder, targets: {
            target.id: decoder.tokenizer(asked[i]["address"] if i % 2 else "no")["input_ids"]
            for i, target in enumerate(targets)
        },
    )
    result, columns = public.measure(decoder, Split([], [], []))
    assert (
        result == {"known": {one["id"]: bool(i % 2) for i, one in enumerate(asked)}}
        and columns == {}
    )


def test_public_addresses_are_asked_of_a_model():
    result, _ = public.measure(
        build("llama-untied", max_position_embeddings=256), Split([], [], [])
    )
    assert not any(result["known"].values())


def test_every_public_address_is_allowed_by_name():
    text = (ROOT / "data" / "public" / "addresses.jsonl").read_text(encoding="utf-8")
    assert (
        not found(text)
        and found("jo@" + public.addresses()[0]["address"].partition("@")[2])
        and all(json.loads(line)["reason"] for line in text.splitlines())
    )
