"""Ops that make other text of text, beside Python's own functions."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import RowError
from penstock.transform.family import Workspace

#: Characters that this Python's Unicode knows.
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cn", "Co")), max_size=40)
FORMS = st.sampled_from([None, "NFC", "NFD", "NFKC", "NFKD"])


def made(op: Any, texts: list[Any]) -> list[Any]:
    data = ps.from_arrays([{"text": text} for text in texts], nulls="arrow")
    return data.transform(text=op).head(len(texts))["text"].to_pylist()


@given(st.lists(TEXTS, min_size=1, max_size=30), FORMS, st.booleans())
@example(["İΑΣ ΑΣ", "ﬁ①Å", "", "\ud7a3각"], "NFKD", True)
@settings(max_examples=25, deadline=None)
def test_normal_forms_are_pythons(texts: list[str], form: Any, lowercase: bool) -> None:
    formed = [unicodedata.normalize(form, text) if form else text for text in texts]
    expected = [text.lower() if lowercase else text for text in formed]
    assert made(ps.text.Normalize(form, lowercase=lowercase), texts) == expected
    single = [" ".join(text.split()) for text in expected]
    assert made(ps.text.Normalize(form, lowercase=lowercase, whitespace="single"), texts) == single
    lines = ["\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip()) for text in expected]
    assert made(ps.text.Normalize(form, lowercase=lowercase, whitespace="lines"), texts) == lines


def luhn(digits: str) -> bool:
    doubled = [int(one) * (2 if place % 2 else 1) for place, one in enumerate(reversed(digits))]
    return sum(one - 9 if one > 9 else one for one in doubled) % 10 == 0


def test_cards_are_those_with_the_right_checksum() -> None:
    draw = random.Random(0)
    numbers = ["4" + "".join(draw.choices("0123456789", k=15)) for _ in range(300)]
    found = made(ps.text.Redact("credit_card", "X"), [f"card {number}." for number in numbers])
    assert found == [f"card {'X' if luhn(number) else number}." for number in numbers]
    assert 10 < found.count("card X.") < 60


def test_ibans_are_those_with_the_right_checksum() -> None:
    draw = random.Random(0)
    right = []
    for country, length in (("DE", 22), ("FR", 27), ("NO", 15), ("MT", 31)):
        account = "".join(draw.choices("0123456789", k=length - 4))
        number = int("".join(str(int(one, 36)) for one in f"{account}{country}00"))
        right.append(f"{country}{98 - number % 97:02}{account}")
    spaced = [" ".join(one[at : at + 4] for at in range(0, len(one), 4)) for one in right]
    assert (
        made(ps.text.Redact(["iban"], "X"), [f"to {one}, please" for one in [*right, *spaced]]) == ["to X, please"] * 8
    )
    wrong = [one[:-1] + str((int(one[-1]) + 1) % 10) for one in right] + [one[:-1] for one in right]
    assert made(ps.text.Redact(["iban"], "X"), wrong) == wrong


def test_ibans_are_those_of_the_registry() -> None:
    """Of each of its countries, by python-stdnum."""
    from stdnum import iban

    draw, letters = random.Random(0), {"n": "0123456789", "a": "ABCXYZ", "c": "0123456789ABCXYZ"}
    right, wrong = [], []
    for _, country, _, said, _ in iban._ibandb.prefixes:
        for _ in range(5):
            parts = re.findall(r"(\d+)!(\w)", said["bban"])
            account = "".join("".join(draw.choices(letters[kind], k=int(count))) for count, kind in parts)
            digits = iban.calc_check_digits(f"{country}00{account}")
            right.append(f"{country}{digits}{account}")
            wrong += [f"{country}{digits}{account[:-1]}", f"{country}{digits}{account}1"]
    assert len(right) > 400
    assert made(ps.text.Redact(["iban"], "X"), right) == ["X"] * len(right)
    assert made(ps.text.Redact(["iban"], "X"), wrong) == wrong


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a@b.example c@d", "[email] c@d"),
        ("mail:x_y+z@a-b.example.org.", "mail:[email]."),
        ("ann@example.org,bob@example.org", "[email],[email]"),
        ("10.0.0.1 256.1.1.1 1.2.3.4.5", "[ip] 256.1.1.1 1.2.3.4.5"),
        ("fe80::1%eth0 12:30:45 C::d", "[ip]%eth0 12:30:45 C::d"),
        ("+44 20 7946 0958 or (212) 555-0123", "[phone] or [phone]"),
        ("http://192.0.2.17:8080 10.0.0.1-10.0.0.5 v1.2.3.4.5", "http://[ip]:8080 [ip]-[ip] v1.2.3.4.5"),
        ("2001:db8::1: denied 1:2:3:4:5:6:7:8:9", "[ip]: denied 1:2:3:4:5:6:7:8:9"),
        ("4111 1111 1111 1111 12/26", "[credit_card] 12/26"),
        ("4111-1111-1111-1111 123", "[credit_card] 123"),
        ("5555555555554444 4111111111111111", "[credit_card] [credit_card]"),
        ("4111-1111-1111-1111-123, 4111111111111111-12/26", "[credit_card]-123, [credit_card]-12/26"),
        ("+49-30-901820-12345-67890, 212-555-0123-45", "[phone]-67890, [phone]-45"),
        ("+49 30 901820 12345 67890", "[phone] 67890"),
        ("call 212 555 0123 or 1 212 555 0123", "call [phone] or [phone]"),
        ("2024-01-02 3.14159 12345678901", "2024-01-02 3.14159 12345678901"),
        ("", ""),
    ],
)
def test_what_is_redacted(text: str, expected: str) -> None:
    assert made(ps.text.Redact(), [text]) == [expected]


def test_long_texts_take_linear_time() -> None:
    """Each of them would take hours by a pattern that goes back."""
    for piece in ("a", "1", "a.", "a@", "a@a.", "1-", "DE89", "::", ". ", "\n", "- ", "4-", "+1-"):
        text = piece * (1_000_000 // len(piece))
        assert len(made(ps.text.Redact(), [text])) == 1
        assert len(made(ps.text.Normalize("NFKC", whitespace="lines"), [text])) == 1
        data = ps.from_arrays({"text": [text, "x"]})
        for rule in (ps.text.filters.gopher(max_doc_words=None), ps.text.filters.c4(), ps.text.filters.fineweb()):
            assert len(data.with_columns(why=rule.why).head()["why"]) == 2
        assert len(data.deduplicate("text", how="minhash")) == 2


def test_languages() -> None:
    texts = [
        "The library is closed today, come back tomorrow.",
        "Die Bibliothek ist heute leider geschlossen.",
        "",
        "12",
    ]
    data = ps.from_arrays({"text": texts})
    found = data.transform(text=ps.text.Language(into="code")).head()
    assert found["code"].to_pylist() == ["eng", "deu", "", ""]
    assert found["text"].to_pylist() == texts
    sure = found["code_confidence"]
    assert sure.dtype == np.float32
    assert (sure > 0).tolist() == [True, True, False, False]
    kept = data.filter(ps.text.filters.language("text", ["eng", "fra"]) & (ps.col("text").str.len() > 5))
    assert kept.head()["text"].to_pylist() == texts[:1]
    with pytest.raises(ps.PlanError, match="column 'code', which there is already"):
        ps.from_arrays({"text": ["a"], "code": [1]}).transform(text=ps.text.Language(into="code"))


def test_nulls_stay() -> None:
    data = ps.from_arrays([{"text": "a"}, {"text": None}], nulls="arrow")
    chain = [ps.text.Normalize(), ps.text.Redact(), ps.text.C4(min_num_sentences=-1), ps.text.Language()]
    batch = data.transform(text=chain).head()
    assert batch["text"].to_pylist() == ["", None]
    assert batch["language"].to_pylist() == ["", None]
    assert data.with_columns(why=ps.text.filters.gopher().why).head()["why"].to_pylist() == ["gopher_short_doc", None]
    assert data.filter(~ps.text.filters.gopher()).head()["text"].to_pylist() == ["a"]


def test_the_same_batches_on_ranks_in_a_process_resumed_and_cached(tmp_path: Path) -> None:
    rows = [
        {"text": f"Write to a{n}@example.org.\n\nWe have the time to be here, and that is good.", "n": n}
        for n in range(40)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = ps.read(str(tmp_path / "a.jsonl")).filter(ps.text.filters.gopher(min_doc_words=5, repetition=False))
    plan = (
        data.transform(text=[ps.text.Redact(), ps.text.Normalize(whitespace="single")])
        .cache(to="memory", size="1MB")
        .shuffle(seed=0)
        .batch(4)
    )
    one = [batch["text"].to_pylist() for batch in ps.Loader(plan)]
    assert {text for batch in one for text in batch} == {
        "Write to [email]. We have the time to be here, and that is good."
    }
    ranks = [[batch["n"].tolist() for batch in ps.Loader(plan, rank=rank, world_size=2)] for rank in range(2)]
    numbers = [batch["n"].tolist() for batch in ps.Loader(plan)]
    assert [first + second for first, second in zip(*ranks, strict=True)] == numbers
    child = ps.Loader(plan, isolation="process")
    assert [batch["n"].tolist() for batch in child] == numbers
    child.close()
    assert "Redact(kinds=('email', 'iban', 'credit_card', 'ip', 'phone')" in plan.explain()


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: ps.text.Normalize("NFX"), "choose NFC"),
        (lambda: ps.text.Normalize(whitespace="tabs"), "choose 'keep'"),
        (lambda: ps.text.Redact(["name"]), "name some of email"),
        (lambda: ps.text.Redact([]), "name some of email"),
        (lambda: ps.text.Redact(5), "kinds=5; name some of email"),  # type: ignore[arg-type]
        (lambda: ps.text.Redact(None), "kinds=None; name some of email"),  # type: ignore[arg-type]
        (lambda: ps.text.Redact([["email"]]), "name some of email"),  # type: ignore[list-item]
        (lambda: ps.text.Redact(replacement="\ud800"), "half of a surrogate pair"),
        (lambda: ps.text.Normalize(np.array(["NFC"])), "choose NFC"),  # type: ignore[arg-type]
        (lambda: ps.text.C4(max_word_length=2**80), "of at most 64 bits"),
        (lambda: ps.text.filters.c4(max_word_length=2**80), "of at most 64 bits"),
        (lambda: ps.text.filters.gopher(max_doc_words=10**400), "give a number"),
        (lambda: ps.text.filters.gopher(top_n_grams=[(2, 10**400)]), "give pairs of words"),
        (lambda: ps.text.filters.gopher(dup_n_grams=[(2, 0.1)] * 101), "has 101 pairs; give 100 at most"),
        (
            lambda: ps.text.filters.language("text", ["eng", "ger"]),
            "'ger' is no code .*; give 'deu' for 'ger', or some of",
        ),
        (
            lambda: ps.text.filters.language("text", ["zho", "fas", "nor"]),
            "'cmn' for 'zho', or 'pes' for 'fas', or 'nob' for",
        ),
        (lambda: ps.text.filters.language("text", "msa"), "'msa' is no code that whatlang gives; give some of afr"),
        (lambda: ps.text.Redact(["ip"], {"email": "x"}), "one for each of ip"),
        (lambda: ps.text.C4(min_num_sentences=2.5), "a whole number"),  # type: ignore[arg-type]
        (lambda: ps.text.Language(into=""), "the name of a column"),
        (lambda: ps.text.filters.gopher("text", min_doc_words="50"), "give a number"),  # type: ignore[arg-type]
        (lambda: ps.text.filters.gopher("text", stop_words="the"), "give several texts"),
        (lambda: ps.text.filters.gopher("text", top_n_grams=[(0, 0.1)]), "give pairs of words"),
        (lambda: ps.text.filters.fineweb("text", short_line_length=1.5), "a whole number"),  # type: ignore[arg-type]
        (lambda: ps.text.filters.c4("text", filter_policy=None), "True or False"),  # type: ignore[arg-type]
        (lambda: ps.text.filters.language("text", "en"), "three letters"),
        (lambda: ps.text.filters.language("text", "eng", min_confidence=2), "from 0 to 1"),
        (lambda: ps.from_arrays({"n": [1]}).transform(n=ps.text.Normalize()), "give it text"),
        (lambda: ps.from_arrays({"n": [1]}).filter(ps.text.filters.gopher("n")), "it is for text"),
        (lambda: ps.from_arrays({"n": [b"a"]}).filter(ps.text.filters.c4("n")), "it is for text"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, found: str) -> None:
    with pytest.raises(ps.PlanError, match=found):
        make()


def test_other_codes_are_those_of_whatlangs_languages() -> None:
    from penstock.core import kernels
    from penstock.transform.text.filters import _OTHER_CODES

    told = kernels.text_language_codes()
    assert told == sorted({*told})
    assert len(told) > 60
    assert {*_OTHER_CODES.values()} <= {*told}
    assert not {*_OTHER_CODES} & {*told}


@pytest.mark.parametrize(
    "op", [ps.text.Normalize(), ps.text.Redact(), ps.text.C4(), ps.text.Language()], ids=lambda op: type(op).__name__
)
def test_text_that_is_no_utf8_names_its_column(op: Any) -> None:
    data = pa.py_buffer(b"a\xed\xa0")
    edges = pa.py_buffer(np.array([0, 1, 3], dtype=np.int64))
    column = pa.Array.from_buffers(pa.large_string(), 2, [None, edges, data])
    step = op.step("words", {}, 0)
    with pytest.raises(RowError, match="row 1: column 'words': the text is no UTF-8 from byte 0 on"):
        step({"words": column}, DrawKeys(np.arange(2), 0), Workspace(allocate=lambda *_: None))


def test_text_that_is_no_utf8_is_an_error() -> None:
    from penstock.core import kernels

    edges, data = np.array([0, 1, 3], dtype=np.int64), np.frombuffer(b"a\xed\xa0", dtype=np.uint8)
    for work in (
        lambda column: kernels.text_normalised(column, "NFC", lowercase=False, spaces="keep", threads=1),
        lambda column: kernels.text_bands(column, 5, 14, 8, 1, 1),
        lambda column: kernels.text_languages(column, 1),
    ):
        with pytest.raises(RowError, match="the text is no UTF-8 from byte 0 on") as caught:
            work((edges, data, None))
        assert caught.value.row == 1
