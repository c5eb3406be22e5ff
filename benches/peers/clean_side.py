"""Cleaning of pages that are in memory: `clean_side.py FOLDER PAGES TASK ENGINE` prints one line of JSON. A task is a filter's name, or "minhash"."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

#: datatrove's usual ones: 14 buckets of 8 hashes of 5-grams of words.
GRAM, BUCKETS, PER_BUCKET = 5, 14, 8
#: Where 14 buckets of 8 find a pair with odds of a half.
THRESHOLD = 0.68


def by_penstock(texts: list[str], task: str) -> int:
    """Verbs of a dataset; what they find is not kept from before."""
    import penstock as ps

    rows = ps.from_arrays({"text": texts})
    if task == "minhash":
        return len(rows.deduplicate("text", how="minhash"))
    return len(rows.filter(getattr(ps.text.filters, task)("text")))


def by_datatrove(texts: list[str], task: str) -> int:
    """The filters, a text at a time."""
    from datatrove.data import Document
    from datatrove.pipeline import filters

    found = {
        "gopher": (filters.GopherQualityFilter, filters.GopherRepetitionFilter),
        "c4": (filters.C4QualityFilter,),
        "fineweb": (filters.FineWebQualityFilter,),
    }
    rules = [kind() for kind in found[task]]
    documents = (Document(text=text, id="") for text in texts)
    return sum(all(rule.filter(one) is True for rule in rules) for one in documents)


def grams(text: str) -> list[str]:
    """The 5-grams of words that texts are compared by."""
    words = text.lower().split()
    return [" ".join(words[first : first + GRAM]) for first in range(max(1, len(words) - GRAM + 1))]


def by_rensa(texts: list[str], tokens: Callable[[str], list[str]]) -> int:
    """A matrix of signatures, and the rows of it that have no other like them; the fastest way of its that looks at all tokens."""
    import rensa

    matrix = rensa.RMinHash.digest_matrix_from_token_sets(map(tokens, texts), BUCKETS * PER_BUCKET, 1)
    index = rensa.RMinHashLSH(THRESHOLD, BUCKETS * PER_BUCKET, BUCKETS)
    return len(texts) - sum(index.insert_matrix_and_query_duplicate_flags(matrix))


def by_datasketch(texts: list[str]) -> int:
    """A MinHash a text, and the rows that agree with none before them in a bucket."""
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(num_perm=BUCKETS * PER_BUCKET, params=(BUCKETS, PER_BUCKET))
    alone = 0
    for row, one in enumerate(MinHash.generator((_encoded(text) for text in texts), num_perm=BUCKETS * PER_BUCKET)):
        alone += not index.query(one)
        index.insert(row, one, check_duplication=False)
    return alone


def _encoded(text: str) -> list[bytes]:
    return [gram.encode() for gram in grams(text)]


ENGINES: dict[str, Callable[[list[str], str], int]] = {
    "penstock": by_penstock,
    "datatrove": by_datatrove,
    "rensa": lambda texts, _: by_rensa(texts, grams),
    "rensa, single words": lambda texts, _: by_rensa(texts, str.split),
    "datasketch": lambda texts, _: by_datasketch(texts),
}


def pages(folder: Path) -> Iterator[str]:
    """Their texts."""
    for file in sorted(folder.glob("*.jsonl"), key=lambda file: int(file.stem)):
        yield from (json.loads(line)["text"] for line in file.open())


def main() -> None:
    """Prints one line of JSON."""
    folder, count, task, engine = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    texts = list(islice(pages(folder), count))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        ENGINES[engine](texts[:10], task)  # imports and tables
        cpu, began = time.process_time(), time.perf_counter()
        kept = ENGINES[engine](texts, task)
        figures = {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
    package = engine.split(",")[0]
    line: dict[str, Any] = {"task": task, "peer": engine, "version": _version(package), "kept": kept}
    print(json.dumps(line | figures | {"texts": len(texts), "peak_mb": _peak_mb()}))


def _version(package: str) -> str:
    if package != "penstock":
        return version(package)
    import penstock

    return penstock.__version__


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    main()
