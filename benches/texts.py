"""Documents of text that a script makes: words of syllables, as often as Zipf's law says, in documents of lognormal length. Imports NumPy only."""

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
