"""Documents of text that a script makes: words of syllables, as often as Zipf's law says, in documents of lognormal length. Imports NumPy only.

`write` makes plain documents, `write_pages` what web pages look like: lines of sentences with commas, quotes and numbers, headings and menus, and every tenth page a copy of another with some other words.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np

FILES = 8
DOCUMENTS = 24_000
#: Mean and spread of the lognormal number of words in a document, and the fewest and most.
WORDS, SPREAD, FEWEST, MOST = 300, 0.9, 8, 8_000
_STARTS = ["b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "br", "st", "tr", "ch"]
_VOWELS, _ENDS = ["a", "e", "i", "o", "u", "ea", "ou"], ["", "n", "r", "s", "t", "ng"]
_VOCABULARY = 40_000


def vocabulary(rng: np.random.Generator) -> list[str]:
    """Words of one to four syllables, the frequent ones shorter."""
    syllables = ["".join(parts) for parts in product(_STARTS, _VOWELS, _ENDS)]
    counts = 1 + np.minimum(3, np.log10(np.arange(1, _VOCABULARY + 1)) * rng.random(_VOCABULARY)).astype(int)
    return ["".join(rng.choice(syllables, count)) for count in counts]


def write(folder: Path, documents: int) -> list[Path]:
    """JSON lines of a key and a text, in FILES files."""
    files = [folder / f"{number}.jsonl" for number in range(FILES)]
    if all(file.exists() for file in files):
        return files
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    words = np.array(vocabulary(rng))
    chances = 1 / np.arange(1, len(words) + 1)
    chances /= chances.sum()
    lengths = np.clip(rng.lognormal(np.log(WORDS) - SPREAD**2 / 2, SPREAD, documents), FEWEST, MOST).astype(int)
    for number, file in enumerate(files):
        with file.with_suffix(".tmp").open("w") as out:
            for row in range(number, documents, FILES):
                text = " ".join(rng.choice(words, lengths[row], p=chances))
                out.write(json.dumps({"id": row, "text": f"{text.capitalize()}."}) + "\n")
        file.with_suffix(".tmp").rename(file)
    return files


#: Every so many pages, one is a copy of an earlier one in which some words are others.
COPIES = 10
#: Short words of English, which the rules about quality look for.
_ENGLISH = ["the", "be", "to", "of", "and", "that", "have", "with", "a", "in", "is", "it"]


def write_pages(folder: Path, pages: int) -> list[Path]:
    """JSON lines of a key and a page, in files of 12,000 pages at most; the same pages for the same number."""
    files = [folder / f"{number}.jsonl" for number in range(-(-pages // 12_000))]
    if all(file.exists() for file in files):
        return files
    folder.mkdir(parents=True, exist_ok=True)
    words = vocabulary(np.random.default_rng(0))
    chances = 1 / np.arange(1, len(words) + 1)
    ranks = np.cumsum(chances / chances.sum())
    earlier: list[list[str]] = []
    for number, file in enumerate(files):
        rng = np.random.default_rng(number)
        with file.with_suffix(".tmp").open("w") as out:
            for row in range(number * 12_000, min(pages, (number + 1) * 12_000)):
                page = _copied(earlier, rng) if row % COPIES == COPIES - 1 else _lines(words, ranks, rng)
                earlier = [*earlier[-99:], page]
                out.write(json.dumps({"id": row, "text": "\n".join(page)}, ensure_ascii=False) + "\n")
        file.with_suffix(".tmp").rename(file)
    return files


def _lines(words: list[str], ranks: np.ndarray, rng: np.random.Generator) -> list[str]:
    """A page: paragraphs, and now and then a heading or a menu."""
    count = int(np.clip(rng.lognormal(np.log(WORDS) - SPREAD**2 / 2, SPREAD), FEWEST, MOST))
    drawn = [words[rank] for rank in np.searchsorted(ranks, rng.random(count)).clip(0, len(words) - 1)]
    drawn = [_ENGLISH[int(one * 60)] if one < 0.2 else word for word, one in zip(drawn, rng.random(count), strict=True)]
    lines: list[str] = []
    place = 0
    while place < count:
        kind = rng.random()
        if kind < 0.1:
            length = int(rng.integers(1, 6))
            lines.append(" ".join(drawn[place : place + length]).title())
            place += length
            continue
        sentences = []
        for length in rng.integers(6, 24, int(rng.integers(1, 6))):
            if place < count:
                sentences.append(_sentence(drawn[place : place + int(length)], rng))
            place += int(length)
        lines.append(" ".join(sentences))
    return lines


def _sentence(words: list[str], rng: np.random.Generator) -> str:
    words = list(words)
    at, kind = int(rng.integers(len(words))), rng.random()
    if kind < 0.4:
        words[at] += ","
    elif kind < 0.5:
        words[at] = f'"{words[at]}"'
    elif kind < 0.6:
        words[at] = f"{rng.integers(1, 3000):,}"
    elif kind < 0.65:
        words[at] += "n't"
    elif kind < 0.7:
        words[at] = f"({words[at]}é)"
    return " ".join(words).capitalize() + ("." if kind < 0.9 else "?!"[kind < 0.95])


def _copied(earlier: list[list[str]], rng: np.random.Generator) -> list[str]:
    """An earlier page with a line less."""
    page = earlier[int(rng.integers(len(earlier)))]
    left_out = int(rng.integers(len(page)))
    return page if len(page) == 1 else [line for number, line in enumerate(page) if number != left_out]
