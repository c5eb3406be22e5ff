"""Writes tables.rs, exceptions.txt and phrases.txt: what spaCy's English tokenizer and datatrove know of characters and of exceptions.

Run in an environment with spacy and datatrove: python rust/src/text/words/make_tables.py
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import spacy
from datatrove.utils.text import PUNCTUATION, PUNCTUATION_SET, TERMINAL_PUNCTUATION
from spacy.lang import char_classes as chars
from spacy.pipeline import Sentencizer

HERE = Path(__file__).parent
EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def of_class(text: str) -> str:
    """The characters of a character class of a regular expression."""
    match = re.compile(f"[{text}]").match
    return "".join(filter(match, EVERY))


def of_category(category: str) -> str:
    """Those of a general category of Unicode."""
    return "".join(one for one in EVERY if unicodedata.category(one).startswith(category))


def single(pieces: list[str]) -> str:
    """The characters that pieces of one character stand for."""
    return "".join({one[-1] for one in pieces if len(one) == 1 or (len(one) == 2 and one[0] == "\\")})


def table(name: str, about: str, characters: str) -> str:
    """A table of the ranges of characters, ascending."""
    ranges: list[list[int]] = []
    for code in sorted({ord(one) for one in characters}):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    pairs = ", ".join(f"(0x{low:X}, 0x{high:X})" for low, high in ranges)
    return f"/// {about}\npub const {name}: &[(u32, u32)] = &[{pairs}];\n"


def main() -> None:
    """Writes the files."""
    units = "|".join(sorted(chars.UNITS.split("|"), key=len, reverse=True))
    before_dot = r"%²\-\+" + chars.PUNCT
    single_prefixes = "§%=—–" + single(chars.LIST_PUNCT) + "…" + single(chars.LIST_QUOTES)
    single_suffixes = single(chars.LIST_PUNCT) + "…" + single(chars.LIST_QUOTES) + "—–"
    tables = [
        table("ALPHA", "Letters of spaCy.", of_class(chars.ALPHA)),
        table("LOWER", "Its lower-case letters, and those without case.", of_class(chars.ALPHA_LOWER)),
        table("UPPER", "Its upper-case letters, and those without case.", of_class(chars.ALPHA_UPPER)),
        table("ICONS", "Its symbols.", of_class(chars.CONCAT_ICONS)),
        table("QUOTES", "Its quotes.", of_class(chars.CONCAT_QUOTES)),
        table(
            "PREFIXES",
            "Single characters that are split off in front.",
            single_prefixes + of_class(chars.CONCAT_ICONS) + single(chars.LIST_CURRENCY),
        ),
        table(
            "SUFFIXES", "Single characters that are split off behind.", single_suffixes + of_class(chars.CONCAT_ICONS)
        ),
        table(
            "BEFORE_DOT",
            "Characters behind which a dot is split off.",
            of_class(rf"0-9{chars.ALPHA_LOWER}{before_dot}(?:{chars.CONCAT_QUOTES})"),
        ),
        table("LETTERS", "Characters that Python calls alphabetic.", "".join(one for one in EVERY if one.isalpha())),
        table("MARKS", "Nonspacing marks: the category Mn.", of_category("Mn")),
        table("DIGITS", "Decimal digits: the category Nd.", of_category("Nd")),
        table("PUNCTUATION_CATEGORY", "Punctuation: the categories P.", of_category("P")),
        table("SPACED", "What datatrove replaces by a space in text that it compares.", PUNCTUATION),
        table("PUNCTUATION", "What datatrove calls punctuation.", "".join(PUNCTUATION_SET)),
        table("STOPS", "Characters that end a sentence for datatrove.", "".join(TERMINAL_PUNCTUATION)),
        table(
            "SENTENCE_ENDS",
            "Tokens of one character that end a sentence for spaCy.",
            "".join(Sentencizer.default_punct_chars),
        ),
    ]
    for_units = ", ".join(f'"{one}"' for one in units.split("|"))
    currencies = [one.replace("\\", "") for one in chars.LIST_CURRENCY]
    for_currency = ", ".join(f'"{one}"' for one in currencies)
    long_prefixes = [
        one.replace("\\", "")
        for one in [*chars.LIST_PUNCT, *chars.LIST_QUOTES, *chars.LIST_CURRENCY]
        if len(one.replace("\\", "")) > 1
    ]
    head = "//! Written by make_tables.py of spaCy (MIT, Explosion AI) and datatrove (Apache-2.0, Hugging Face).\n\n"
    rest = (
        f"/// Units that are split off behind a digit.\npub const UNITS: &[&str] = &[{for_units}];\n"
        f"/// Currencies that are split off behind a digit.\npub const CURRENCIES: &[&str] = &[{for_currency}];\n"
        f"// Prefixes of several characters: {long_prefixes}\n"
    )
    (HERE / "tables.rs").write_text(head + "\n".join(tables) + "\n" + rest)

    tokenizer, bare = spacy.blank("en").tokenizer, spacy.blank("en").tokenizer
    bare.rules = {}
    exceptions, phrases = [], []
    for key, rule in sorted(tokenizer.rules.items()):
        parts = [one[65] if 65 in one else one["ORTH"] if "ORTH" in one else next(iter(one.values())) for one in rule]
        assert "".join(parts) == key, (key, rule)
        if any(one.isspace() for one in key):
            continue
        exceptions.append("\t".join(parts))
        if tokenizer.find_prefix(key) or tokenizer.find_infix(key) or tokenizer.find_suffix(key):
            words = [one.text for one in bare(key)]
            if len(words) > 1:
                assert any(not (one[0].isascii() and one[0].isalnum()) for one in words[:2]), words
                phrases.append("\t".join(words))
    (HERE / "exceptions.txt").write_text("\n".join(exceptions) + "\n")
    (HERE / "phrases.txt").write_text("\n".join(phrases) + "\n")


main()
