"""Writes text_rules.json.gz: texts, and what datatrove's filters and spaCy's English tokenizer make of each.

Texts are READMEs of the packages that are installed beside datatrove, texts put together to break rules, and letters and exceptions drawn by chance.
Run where datatrove and spacy are installed: python tests/golden/make_text_rules.py [OTHER.json WHERE.json.gz], of other texts if they are named.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.filters.c4_filters import C4QualityFilter
from datatrove.pipeline.filters.fineweb_quality_filter import FineWebQualityFilter
from datatrove.pipeline.filters.gopher_quality_filter import GopherQualityFilter
from datatrove.pipeline.filters.gopher_repetition_filter import GopherRepetitionFilter
from datatrove.utils.text import ngrams, simplify_text, split_into_words

WHERE = Path(__file__).with_name("text_rules.json.gz")
LETTERS = (
    "abzABZ019 .,:;!?'\"’…-–—/()[]{}<>#$€£%&*+=~_@^°²µéßÉжЖ日本 \u00a0\n\t'ssSkmKgIxXDoO8=3\\|¿«»„“”`™→☺\u2009\ud7a3نم"
)
PIECES = [
    "don't",
    "can't",
    "I'm",
    "U.S.",
    "e.g.",
    "Ph.D.",
    ":)",
    ":-(",
    "10km",
    "5%",
    "US$",
    "3$",
    "a.com",
    "http://x.io/a?b=1",
    "me@x.org",
    "1.2.3.4",
    "192.168.1.1",
    "word.Word",
    "a,b",
    "x-y",
    "--",
    "...",
    "……",
    "'cause",
    "he's",
    "and/or",
    "10a.m.",
    "C++",
    "[1]",
    "{",
]
SENTENCES = [
    "The quick brown fox jumps over the lazy dog and then rests.",
    "To be, or not to be: that is the question!",
    "We have seen that this is the case with all of them.",
    "Please read our privacy policy and terms of use.",
    "You need Javascript to see this page.",
    "Lorem ipsum dolor sit amet.",
    "Menu",
    "- an item of a list",
    "• another item",
    "It goes on and on...",
    "# # # #",
    "12 34 56 78 90",
    "Citation needed.[12] See this.[edit]",
    'She said: "Why not?"',
]


def texts() -> list[str]:
    """All texts."""
    draw = random.Random(0)
    found = {
        one.metadata["Name"]: one.metadata.get_payload() or one.metadata.get("Description") or ""
        for one in distributions()
    }
    real = [str(found[name])[:6000] for name in sorted(found) if found[name]]
    made = [draw.choice(["\n", " ", "\n\n"]).join(draw.choices(SENTENCES, k=draw.randint(1, 30))) for _ in range(300)]
    words = " ".join(SENTENCES).split()
    made += [" ".join(draw.choices(words[: draw.randint(3, len(words))], k=draw.randint(40, 200))) for _ in range(150)]
    odd = ["".join(draw.choice(LETTERS) for _ in range(draw.randint(1, 60))) for _ in range(300)]
    odd += [
        "".join(
            draw.choice([*PIECES, draw.choice(LETTERS), " ", "  ", ".", ")", "\n"]) for _ in range(draw.randint(1, 12))
        )
        for _ in range(300)
    ]
    return [*real, *made, *odd, " ", "\n", "."]


def judged(rules: Any, text: str) -> tuple[str, str]:
    """The name of the rule that a text breaks, "" for none, and what is kept of it; "?" where datatrove divides by 0."""
    document = Document(text=text, id="")
    try:
        found = rules.filter(document)
    except ZeroDivisionError:
        return "?", ""
    return (found[1], "") if isinstance(found, tuple) else ("" if found else "?", document.text)


def main() -> None:
    """Writes the file."""
    all_rules = {
        "quality": GopherQualityFilter(),
        "repetition": GopherRepetitionFilter(),
        "fineweb": FineWebQualityFilter(),
        "c4": C4QualityFilter(),
        "loose": GopherQualityFilter(min_doc_words=None, min_stop_words=1, max_doc_words=60),
        "sentences": C4QualityFilter(
            split_paragraph=False, min_num_sentences=2, filter_no_terminal_punct=False, max_word_length=8
        ),
    }
    given = json.loads(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else texts()
    rows = []
    for text in given:
        row: dict[str, Any] = {"text": text, "words": split_into_words(text)}
        for name, rules in all_rules.items():
            row[name], kept = judged(rules, text)
            if name in ("c4", "sentences"):
                row[f"{name}_kept"] = kept
        row["simplified"] = simplify_text(text)
        row["shingles"] = len({*ngrams(split_into_words(row["simplified"]), 5)})
        rows.append(row)
    where = Path(sys.argv[2]) if len(sys.argv) > 2 else WHERE
    where.write_bytes(gzip.compress(json.dumps(rows, ensure_ascii=False).encode(), mtime=0))


main()
