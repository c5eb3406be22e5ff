"""The tokenizer alone, on texts that are in memory: 1,000 in a call, on all CPUs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import tokenizers
from tokenise_common import files, measure, tokenizer

TEXTS = 1_000


def main() -> None:
    """Prints one line of JSON."""
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    folder = Path(sys.argv[1])
    encoder = tokenizer(folder)
    texts = [json.loads(line)["text"] for file in files(folder) for line in file.open()]

    def batches() -> Iterator[tuple[int, int]]:
        for first in range(0, len(texts), TEXTS):
            tokens = sum(len(encoding) for encoding in encoder.encode_batch_fast(texts[first : first + TEXTS]))
            yield tokens, tokens

    print(json.dumps(measure("tokenizer alone", tokenizers.__version__, batches)))


if __name__ == "__main__":
    main()
