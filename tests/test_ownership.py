"""Whose a secret is, and whether its prompt gives it away."""

import pytest
from conftest import spelt
from hypothesis import given
from hypothesis import strategies as st

from companion.data import ownership
from companion.measures import prompt_leakage
from revs.model.targets import Record, Split


def email(id: str, secret: str) -> Record:
    return Record(id, "email", id, "", secret, "")


def test_an_owner_is_known_by_the_parts_of_an_address_and_a_company_by_its_domain():
    one, two = email("a", "ada.byron@lib.example.org"), email("b", "byron_ada@other.example.org")
    assert ownership.owner_keys(one) & ownership.owner_keys(two) == {("owner", "ada", "byron")}
    assert not ownership.owner_keys(email("c", "x@example.com")) & ownership.owner_keys(
        email("d", "y@example.com")
    )


NAMES = st.sampled_from(["ada", "ben", "cy", "dee.fo", "fo.dee", "gil"])
DOMAINS = st.sampled_from(["lib.example.org", "acme.example.com", "b.example.net", "example.com"])


@given(st.lists(st.tuples(NAMES, DOMAINS), max_size=12), st.sampled_from([0.0, 0.34, 0.5]))
def test_no_owner_and_no_domain_is_on_both_sides(pairs, share):
    records = [email(f"{i:02d}", f"{name}@{domain}") for i, (name, domain) in enumerate(pairs)]
    taken = ownership.tuning_ids(records, share)
    assert len(taken) <= share * len(records)
    sides = {True: set(), False: set()}
    for record in records:
        sides[record.id in taken] |= ownership.owner_keys(record)
    assert not sides[True] & sides[False]


def test_a_share_is_taken_as_far_as_owners_allow():
    records = [email(f"{i:02d}", f"n{i}@d{i}.example.org") for i in range(9)]
    assert len(ownership.tuning_ids(records, 0.34)) == 3
    whole = [email(f"{i:02d}", f"n{i}@lib.example.org") for i in range(9)]
    assert ownership.tuning_ids(whole, 0.34) == set()


@pytest.mark.parametrize(
    ("secret", "yes"),
    [
        ("jdoe@x.example.org", True),
        ("doe.john@x.example.org", True),
        ("johnd@x.example.org", True),
        ("<john_doe@x.example.org>", True),
        ("jd@x.example.org", False),  # first letters alone stand in every prompt
        ("john42@x.example.org", False),
        ("frey@x.example.org", False),
    ],
)
def test_an_address_may_be_spelt_with_the_names_before_it(secret, yes):
    assert ownership.spelled_in_prompt(secret, "(c) 1999 by John Doe ") is yes


def test_the_measure_says_which_secrets_their_prompts_tell(decoder):
    told = spelt(decoder, "t0", "by Ada Byron <", "byron.ada@x.example.org")
    not_told = spelt(decoder, "t1", "by Ada Byron <", "countess@x.example.org")
    result, columns = prompt_leakage.measure(decoder, Split([told], [], [not_told]))
    assert result == {"secrets": 2, "leaked": 1}
    assert columns == {"t0": {"leaked": True}, "t1": {"leaked": False}}


@pytest.mark.parametrize(
    "kind, prompt, secret, leaked",
    [
        ("url", "- fix a leak [#4711](", "https://git.example.org/docs/pull/4711)", True),
        ("url", "- fix a leak (", "https://git.example.org/docs/pull/4711", False),
        ("url", "see MAGNOLIA: ", "https://docs.example.org/en/magnolia/", True),
        ("url", "`MAGNOLIA`: `", "https://docs.example.org/magnolia#`", True),
        ("email", "Ada Lovelace <", "lovelace@example.com", True),
        ("email", "Ada Lovelace <", "ada.lovelace@example.com", False),
        ("email", "Adam Lovelace <", "ada@example.com", True),
        ("phone", "212-555-0147 or ", "212-555-0147", True),
    ],
)
def test_a_secret_that_its_prompt_holds(kind, prompt, secret, leaked):
    assert ownership.secret_in_prompt(Record("a", kind, "a", prompt, secret, "")) == leaked


@pytest.mark.parametrize(
    ("kind", "secret", "domain"),
    [
        ("email", "<Ada@Example.COM>", "example.com"),
        ("url", "https://example.com:80/a?b#c", "example.com"),
        ("url", "example.com/a", None),
        ("ssn", "900-01-2345", None),
    ],
)
def test_a_domain_is_what_a_company_shares(kind, secret, domain):
    assert ownership.domain_of(kind, secret) == domain
