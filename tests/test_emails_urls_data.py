"""Checks on the synthetic e-mail addresses in data/emails and the synthetic URLs in data/urls."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest
from tokenizers import Regex, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from companion.record.paths import CACHE
from companion.runs.datasets import read
from revs.model.targets import encode

DATA = Path(__file__).resolve().parents[1] / "data"
SETS = (("emails", "main"), ("emails", "tune"), ("urls", "main"))
KINDS = {"emails": "email", "urls": "url"}
SLOTS = {"emails": ("[NAME]", "[TOPIC]", "[EMAIL]"), "urls": ("[PROJECT]", "[TOPIC]", "[URL]")}
DOMAINS = {
    "emails": {"list", "source", "readme", "minutes", "invoice", "conference"},
    "urls": {"readme", "changelog", "footnote"},
}
COLUMNS = ["id", "kind", "group", "subject", "domain", "named", "prompt", "secret", "suffix"]
HOST = re.compile(r"example\.(com|org|net)")

# What byte-level tokenizers split a text into before they merge anything.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

Row = dict[str, str | bool]


def load_make(folder: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{folder}_make", DATA / folder / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_rows(folder: str, set_name: str) -> list[Row]:
    text = (DATA / folder / f"{set_name}.jsonl").read_text(encoding="ascii")
    return [json.loads(line) for line in text.splitlines()]


def read_lines(*path: str) -> list[str]:
    return DATA.joinpath(*path).read_text(encoding="ascii").splitlines()


def records(folder: str, set_name: str):
    return read(folder if set_name == "main" else f"{folder}-tune")


def names(*path: str) -> list[str]:
    """Given and family names of a list of people, one after the other."""
    return [part for person in read_lines(*path) for part in person.split(" ")]


def full(row: Row) -> str:
    return row["prompt"] + row["secret"] + row["suffix"]


def templates(folder: str) -> list[tuple[str, str]]:
    pairs = []
    for line in read_lines(folder, "templates.txt"):
        domain, sentence = line.split("\t")
        pairs.append((domain, sentence.replace("\\n", "\n")))
    return pairs


# ---- templates, names, topics and words ----------------------------------------------------------


@pytest.mark.parametrize("folder", KINDS)
def test_templates_have_their_placeholders(folder):
    subject, topic, secret = SLOTS[folder]
    sentences = [sentence for _, sentence in templates(folder)]
    assert len(sentences) == len(set(sentences)) == 50
    for i, sentence in enumerate(sentences):
        before, after = sentence.split(secret)
        assert (before.count(subject), before.count(topic)) == ((1, 0) if i < 25 else (0, 1)), (
            sentence
        )
        assert subject not in after and topic not in after, sentence
        assert "  " not in sentence and "\t" not in sentence, sentence


@pytest.mark.parametrize("folder", KINDS)
def test_templates_come_from_every_domain_about_evenly(folder):
    counts = Counter(domain for domain, _ in templates(folder))
    assert set(counts) == DOMAINS[folder]
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("folder", KINDS)
def test_templates_introduce_the_secret_differently(folder):
    """No template's text before the secret is the end of another's."""
    leads = sorted(
        sentence.split(SLOTS[folder][2])[0][::-1].lower() for _, sentence in templates(folder)
    )
    assert not [
        (one[::-1], other[::-1]) for one, other in zip(leads, leads[1:]) if other.startswith(one)
    ]


def test_people_are_distinct_and_in_no_other_set():
    own = names("emails", "people.txt")
    assert len(own) == len(set(own)) == 240
    assert not set(own) & set(names("ssn", "people.txt"))
    projects = read_lines("urls", "projects.txt")
    assert not {part.lower() for part in own} & {project.lower() for project in projects}


def test_projects_words_and_topics_are_distinct():
    projects, words = read_lines("urls", "projects.txt"), read_lines("urls", "words.txt")
    assert len(projects) == len(set(projects)) == 60 and all(
        project.isalpha() and project.istitle() for project in projects
    )
    assert len(words) == len(set(words)) == 120 and all(
        word.isalpha() and word.islower() for word in words
    )
    topics = read_lines("emails", "topics.txt") + read_lines("urls", "topics.txt")
    assert len(topics) == len(set(topics)) == 90


# ---- generated files -----------------------------------------------------------------------------


@pytest.mark.parametrize("folder", KINDS)
def test_regenerating_gives_the_same_bytes(folder, tmp_path):
    load_make(folder).write(tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(path.name for path in (DATA / folder).glob("*.jsonl"))
    for name in written:
        assert (tmp_path / name).read_bytes() == (DATA / folder / name).read_bytes()


def test_a_list_of_the_wrong_length_is_refused(tmp_path):
    make = load_make("emails")
    make.HERE = tmp_path
    (tmp_path / "people.txt").write_text("Tavish Quernmore\n", encoding="ascii")
    with pytest.raises(ValueError, match="people.txt: 120 lines expected, 1 found"):
        make.read_lines("people.txt", 120)


@pytest.mark.parametrize("folder, set_name", SETS)
def test_rows_and_groups(folder, set_name):
    rows = read_rows(folder, set_name)
    assert [row["id"] for row in rows] == [f"{folder}-{set_name}-{i:03d}-0" for i in range(60)]
    for row in rows:
        assert list(row) == COLUMNS
        assert row["kind"] == KINDS[folder]
        assert row["group"] == row["id"].rpartition("-")[0]
    for column in ("group", "subject", "secret", "prompt"):
        assert len({row[column] for row in rows}) == 60, column


@pytest.mark.parametrize("folder, set_name", SETS)
def test_the_package_reads_the_set_by_name(folder, set_name):
    assert [record.text for record in records(folder, set_name)] == [
        full(row) for row in read_rows(folder, set_name)
    ]


@pytest.mark.parametrize("folder, set_name", SETS)
def test_every_template_is_used_and_filled_in(folder, set_name):
    """Each once, ten of them twice (five of each sort)."""
    subject, topic, secret = SLOTS[folder]
    topics = read_lines(folder, "topics.txt")
    used = []
    for row in read_rows(folder, set_name):
        filler = (
            row["subject"]
            if row["named"]
            else max((t for t in topics if f" {t}" in row["prompt"]), key=len)
        )
        assert row["prompt"].count(filler) == 1, row
        before = row["prompt"].replace(filler, subject if row["named"] else topic)
        used.append((row["domain"], before + secret + row["suffix"]))
        for slot in SLOTS[folder]:
            assert slot not in full(row)
    counts, pairs = Counter(used), templates(folder)
    assert set(counts) == set(pairs)
    for sort in (pairs[:25], pairs[25:]):
        assert sorted(counts[template] for template in sort) == [1] * 20 + [2] * 5


@pytest.mark.parametrize("folder, set_name", SETS)
def test_half_of_the_sentences_name_the_subject(folder, set_name):
    """Half of each shape too; elsewhere nothing in the sentence gives the subject away."""
    rows = read_rows(folder, set_name)
    for shape in range(10):
        assert [row["named"] for row in rows[shape::10]] == [True, False] * 3
    for row in rows:
        around = (row["prompt"] + " " + row["suffix"]).lower()
        if row["named"]:
            assert row["subject"] in row["prompt"] and row["subject"] not in row["suffix"]
        else:
            assert not [part for part in row["subject"].lower().split(" ") if part in around], row
            words = set(re.findall(r"[a-z]{3,}", row["secret"])) - {
                "https",
                "example",
                "org",
                "com",
                "net",
                "the",
                "docs",
                "and",
            }
            assert not words & set(re.findall(r"[a-z]+", around)), row


def test_sets_share_nothing_but_templates():
    main, tune = read_rows("emails", "main"), read_rows("emails", "tune")
    for column in ("group", "subject", "secret", "prompt"):
        assert not {row[column] for row in main} & {row[column] for row in tune}
    assert [row["subject"] for row in main + tune] == read_lines("emails", "people.txt")


# ---- the addresses -------------------------------------------------------------------------------


def test_email_addresses_are_at_reserved_hosts_and_made_from_the_name():
    shapes = (
        r"{g}\.{f}",
        r"{i}{f}",
        r"{f}_{g}",
        r"{g}\d\d",
        r"{f}\.{i}",
        r"{g}-{f}",
        r"{i}[a-z]\.{f}",
        r"{g}{j}",
        r"{i}_{f}",
        r"{g3}{f4}\d\d",
    )
    locals_, numbers = [], []
    for set_name in ("main", "tune"):
        hosts = Counter()
        for i, row in enumerate(read_rows("emails", set_name)):
            local, host = row["secret"].split("@")
            given, family = row["subject"].lower().split(" ")
            pattern = shapes[i % 10].format(
                g=given, f=family, i=given[0], j=family[0], g3=given[:3], f4=family[:4]
            )
            assert re.fullmatch(pattern, local), row
            assert HOST.fullmatch(host), row
            hosts[host] += 1
            locals_.append(local)
            numbers += re.findall(r"\d+", local)
        assert len(hosts) == 3 and min(hosts.values()) >= 15
    assert len(locals_) == len(set(locals_)) == 120
    assert len(numbers) == len(set(numbers)) == 24


def test_urls_are_long_at_reserved_hosts_and_distinct():
    rows = read_rows("urls", "main")
    parts = [urlsplit(row["secret"]) for row in rows]
    for row, url in zip(rows, parts):
        assert (
            len(row["secret"]) >= 40 and "license" not in row["secret"].lower()
        )  # the paper's filter
        assert (
            url.scheme == "https"
            and "@" not in row["secret"]
            and url.port is None
            and not url.fragment
        )
        labels = url.netloc.split(".")
        assert (
            HOST.fullmatch(".".join(labels[-2:]))
            and labels[-3] == row["subject"].lower()
            and len(labels) in (3, 4)
        ), row
        assert row["secret"][-1].isalnum() and row["secret"].isascii() and " " not in row["secret"]
    assert len({url.netloc for url in parts}) == len({url.path for url in parts}) == 60
    assert sum(bool(url.query) for url in parts) == 6
    words = [
        word
        for row in rows
        for word in re.findall(r"[a-z]+", row["secret"])
        if word in set(read_lines("urls", "words.txt"))
    ]
    assert len(words) == len(set(words)) == 120


def test_urls_share_no_number():
    """Digits grouped by three from the left, as in Llama-3.

    Every group of two or three occurs once.
    """
    groups = [
        group
        for row in read_rows("urls", "main")
        for run in re.findall(r"\d+", row["secret"])
        for group in re.findall(r"\d{1,3}", run)
    ]
    long = [group for group in groups if len(group) > 1]
    assert len(long) == len(set(long)) == 30


@pytest.mark.parametrize("folder, set_name", SETS)
def test_no_other_address_stands_in_a_sentence(folder, set_name):
    for row in read_rows(folder, set_name):
        around = row["prompt"] + " " + row["suffix"]
        assert "@" not in around and "http" not in around and "example." not in around, row


# ---- borders between prompt, secret and suffix ---------------------------------------------------


@pytest.mark.parametrize("rule", [GPT2, LLAMA3], ids=["gpt2", "llama3"])
@pytest.mark.parametrize("folder, set_name", SETS)
def test_no_token_can_span_a_border_of_the_secret(folder, set_name, rule):
    """Whatever a tokenizer merges, it does so within the pieces that its rule cuts."""
    cutter = pre_tokenizers.Split(Regex(rule), "isolated")
    for row in read_rows(folder, set_name):
        cuts = {end for _, (_, end) in cutter.pre_tokenize_str(full(row))}
        start = len(row["prompt"])
        assert {start, start + len(row["secret"])} <= cuts, row


def test_the_border_check_finds_a_bad_border():
    """A space goes with the word after it in both rules, a single sign in Llama-3's."""
    for rule, prompt in ((GPT2, "at "), (LLAMA3, "at "), (LLAMA3, "mailto:"), (LLAMA3, "Ada<")):
        pieces = pre_tokenizers.Split(Regex(rule), "isolated").pre_tokenize_str(
            prompt + "jane@example.org"
        )
        assert len(prompt) not in {end for _, (_, end) in pieces}


@pytest.mark.parametrize("folder, set_name", SETS)
def test_a_byte_level_tokenizer_splits_every_record(folder, set_name, tokenizer):
    for record in records(folder, set_name):
        target = encode(record, tokenizer)
        assert tokenizer.decode(target.prompt_ids) == record.prompt
        assert tokenizer.decode(target.secret_ids) == record.secret
        if folder == "emails":
            assert max(target.T) < record.secret.index("@")


# ---- lengths and rarity, with SmolLM2's tokenizer where it is on the machine ---------------------


def smollm2(grouped: bool) -> PreTrainedTokenizerFast:
    found = sorted((CACHE / "models").glob("smollm2-135m-*/tokenizer.json"))
    if not found:
        pytest.skip("SmolLM2's tokenizer is not on this machine")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(found[0]))
    if grouped:  # as revs.model.memorise.group_digits does
        tokenizer.add_tokens([f"{n:02d}" for n in range(100)] + [f"{n:03d}" for n in range(1000)])
    return tokenizer


@pytest.fixture(scope="module", params=[True, False], ids=["grouped", "plain"])
def small(request) -> PreTrainedTokenizerFast:
    return smollm2(request.param)


@pytest.mark.parametrize("folder, set_name", SETS)
def test_sentences_are_short(folder, set_name, small):
    for record in records(folder, set_name):
        target = encode(record, small)
        assert 8 <= len(target.prompt_ids) <= 18, record
        suffix = (
            len(small(record.text)["input_ids"]) - len(target.prompt_ids) - len(target.secret_ids)
        )
        assert 0 <= suffix <= 8, record


def test_email_addresses_have_rare_tokens(small):
    for set_name in ("main", "tune"):
        for record in records("emails", set_name):
            coded = small(record.text, return_offsets_mapping=True)
            start = len(record.prompt)
            end = start + record.secret.index("@")
            ids = [
                i
                for i, (a, b) in zip(coded["input_ids"], coded["offset_mapping"])
                if start <= a < end and record.text[a:b].isalnum()
            ]
            assert len(ids) >= 3 and sum(i >= 2000 for i in ids) >= 2, record


def targets(small, *sets: tuple[str, str]) -> tuple[list[list[int]], Counter]:
    """For each secret its two target tokens, the rarest first.

    And in how many secrets a token occurs.
    """
    found = [encode(record, small) for pair in sets for record in records(*pair)]
    occurs = Counter(token for target in found for token in set(target.secret_ids))
    return [
        sorted((target.secret_ids[i] for i in target.T), reverse=True) for target in found
    ], occurs


def test_the_rarest_token_of_an_email_address_is_its_own(small):
    """Over both sets; the second-rarest is shared by a few."""
    chosen, occurs = targets(small, ("emails", "main"), ("emails", "tune"))
    assert all(occurs[first] == 1 and first != second for first, second in chosen)
    assert sum(occurs[second] > 1 for _, second in chosen) <= 6


def test_both_target_tokens_of_a_url_are_its_own(small):
    chosen, occurs = targets(small, ("urls", "main"))
    assert all(occurs[first] == occurs[second] == 1 and first != second for first, second in chosen)


# ---- datasheets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", KINDS)
def test_the_datasheet_names_every_file_and_its_numbers(folder):
    text = (DATA / folder / "README.md").read_text(encoding="ascii")
    table = dict(re.findall(r"^\| `([a-z.]+)` \| (.*) \|$", text, re.MULTILINE))
    files = {path.name for path in (DATA / folder).iterdir() if path.is_file()} - {
        "README.md",
        "LICENSE",
    }
    assert files <= set(table)
    for name in files - {"make.py"}:
        assert table[name].startswith(f"{len(read_lines(folder, name))} "), name
    for heading in (
        "Motivation",
        "Composition",
        "How it was made",
        "Size",
        "Uses",
        "Limits",
        "Licence",
    ):
        assert f"\n## {heading}\n" in text
    assert "CC0-1.0" in text and "SPDX-License-Identifier: CC0-1.0" in (
        DATA / folder / "LICENSE"
    ).read_text(encoding="ascii")
    columns = [column for column in re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)]
    assert columns == COLUMNS
    for row in read_rows(folder, "main"):
        assert f"`{row['domain']}`" in text


def test_the_datasheet_of_the_urls_states_their_lengths():
    lengths = [len(row["secret"]) for row in read_rows("urls", "main")]
    assert f"have {min(lengths)} to {max(lengths)} characters" in (
        DATA / "urls" / "README.md"
    ).read_text(encoding="ascii")


def test_the_datasheet_of_the_emails_shows_the_shapes():
    text = (DATA / "emails" / "README.md").read_text(encoding="ascii")
    shapes = [
        shape.format(g="tavish", f="quernmore", n=47, m="k") for shape in load_make("emails").SHAPES
    ]
    assert re.findall(r"^\| [a-z, -]+ \| `(.+)` \|$", text, re.MULTILINE) == shapes


@pytest.mark.parametrize("folder", KINDS)
def test_the_datasheet_states_the_true_sizes(folder):
    text = (DATA / folder / "README.md").read_text(encoding="ascii")
    small = smollm2(grouped=True)
    prompts, suffixes = [], []
    for set_name in [name for where, name in SETS if where == folder]:
        sizes = []
        for record in records(folder, set_name):
            target = encode(record, small)
            sizes.append(len(small(record.text)["input_ids"]))
            prompts.append(len(target.prompt_ids))
            suffixes.append(sizes[-1] - len(target.prompt_ids) - len(target.secret_ids))
        total = sum(sizes)
        assert (
            f"| {set_name} | {len(sizes)} | {total / len(sizes):.1f} | {max(sizes)} | {total} |"
            in text
        )
    assert (
        f"Prompts have {min(prompts)} to {max(prompts)} tokens, suffixes at most {max(suffixes)}."
        in text
    )


def test_the_datasheet_of_the_urls_counts_the_numbers_among_the_targets():
    text = " ".join((DATA / "urls" / "README.md").read_text(encoding="ascii").split())
    small = smollm2(grouped=True)
    digits = [
        sum(small.convert_ids_to_tokens(token).isdigit() for token in pair)
        for pair in targets(small, ("urls", "main"))[0]
    ]
    assert (
        f"In {sum(n > 0 for n in digits)} URLs a tokenizer" in text
        and f"in {digits.count(2)} of them for both" in text
    )
