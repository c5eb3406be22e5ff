"""scikit-learn's ColumnTransformer on a frame of pandas that is read from the file."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import sklearn
from common import BATCH, CPUS, Feed, main
from mixed_table import CATEGORIES, CODES, FLOATS, INTEGERS, SKEWED, one_row, place, write
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from work import Data

#: Rows up to which scikit-learn's processes are tried: each holds a copy of what it works on, and together they were slower than one.
MOST_IN_PROCESSES = 1_000_000


def transformer(jobs: int | None) -> ColumnTransformer:
    """What every side does."""
    return ColumnTransformer(
        [
            ("floats", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), FLOATS),
            ("integers", MinMaxScaler(), INTEGERS),
            ("skewed", make_pipeline(FunctionTransformer(np.log1p), RobustScaler()), SKEWED),
            ("categories", OneHotEncoder(handle_unknown="ignore", dtype=np.float32), CATEGORIES),
            ("codes", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), CODES),
        ],
        n_jobs=jobs,
    )


def passes(data: Data, jobs: int | None) -> Iterator[Any]:
    """Read, fit and transform, again and again."""
    while True:
        frame = pd.read_parquet(place(data))
        yield transformer(jobs).fit_transform(frame)


def feed(data: Data, *, jobs: int | None) -> Feed:
    """A pass is a batch of all rows."""
    settings = {"n_jobs": jobs, "rows": BATCH["tables-recipe"]}
    return Feed(batches=passes(data, jobs), column=lambda made: made, settings=settings, is_pass=True)


def served(data: Data) -> Feed:
    """One row after the other."""
    frame = next(pq.ParquetFile(place(data)).iter_batches(100_000)).to_pandas()
    fitted, row = transformer(None).fit(frame), pd.DataFrame([one_row(data)])
    return Feed(batches=(fitted.transform(row) for _ in repeat(None)), column=lambda made: made)


if __name__ == "__main__":
    feeds = {"n_jobs=None": partial(feed, jobs=None)}
    if BATCH["tables-recipe"] <= MOST_IN_PROCESSES:
        feeds["n_jobs=CPUs"] = partial(feed, jobs=CPUS)
    names = ("tables-recipe", "tables-profile", "tables-columns", "tables-row")
    main(
        "scikit-learn",
        f"{sklearn.__version__}, pandas {pd.__version__}",
        {"tables-recipe": feeds, "tables-row": {"a frame of one row": served}},
        write=dict.fromkeys(names, write),
    )
