"""Writes tests/golden/lines with the writers that people use: python tests/golden/make_lines.py, where datasets and pandas are.

Every file holds the same five rows; rows.json says which, as the standard library writes them.
"""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv

FOLDER = Path(__file__).parent / "lines"
TEXTS = ["plain", 'a "quoted", word', "two\nlines\r\nand more", "", "naïve 😀 \u2028 \\ / end\t."]
ROWS = [
    {"id": number - 2, "text": text, "score": [0.1, -2.5e300, 1.0, 1e-7, 123456.789][number], "flag": number % 2 == 0}
    for number, text in enumerate(TEXTS)
]
LISTS = [{"tokens": list(range(number)), "words": TEXTS[:number], "box": {"left": number / 4}} for number in range(5)]


def main() -> None:
    """All of them."""
    FOLDER.mkdir(exist_ok=True)
    rows = [{**row, **lists} for row, lists in zip(ROWS, LISTS, strict=True)]
    (FOLDER / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")
    datasets.Dataset.from_list(rows).to_json(FOLDER / "datasets.jsonl")
    pd.DataFrame(rows).to_json(FOLDER / "pandas.jsonl", orient="records", lines=True, double_precision=15)
    pd.DataFrame(rows).to_json(FOLDER / "pandas.jsonl.xz", orient="records", lines=True, double_precision=15)
    datasets.Dataset.from_list(ROWS).to_csv(FOLDER / "datasets.csv")
    pd.DataFrame(ROWS).to_csv(FOLDER / "pandas.tsv", index=False, sep="\t")
    pd.DataFrame(ROWS).to_csv(FOLDER / "pandas.csv.bz2", index=False)
    arrow_csv.write_csv(pa.Table.from_pylist(ROWS), FOLDER / "arrow.csv")


if __name__ == "__main__":
    main()
