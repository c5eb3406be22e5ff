"""Trees of XGBoost and LightGBM on a loader's batches, and on the same table in memory. Prints what differs, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xgboost
from sklearn.linear_model import SGDClassifier

import penstock as ps
import penstock.lightgbm
import penstock.xgboost

ROWS, FEATURES = 1_000, [f"f{number}" for number in range(5)]


def raised(call: Any) -> str:
    try:
        call()
    except ps.PenstockError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    draw = np.random.default_rng(0)
    x = draw.random((ROWS, len(FEATURES))).astype(np.float32)
    y, weight = (x[:, 0] + x[:, 1] > 1).astype(np.int64), draw.random(ROWS)
    table = pa.table({**dict(zip(FEATURES, x.T, strict=True)), "y": y, "w": weight, "text": ["word"] * ROWS})
    pq.write_table(table, folder / "t.parquet", row_group_size=300)
    plan = ps.read(folder / "t.parquet").select(*FEATURES, "y", "w").batch(128)
    found: dict[str, Any] = {}

    trees = {"tree_method": "hist", "objective": "binary:logistic", "nthread": 1}
    whole = xgboost.DMatrix(x)
    wanted = xgboost.train(trees, xgboost.QuantileDMatrix(x, y, weight=weight), 4).predict(whole)
    for kind, options in (("QuantileDMatrix", {}), ("ExtMemQuantileDMatrix", {"cache_prefix": str(folder / "kept")})):
        data = penstock.xgboost.DataIter(ps.Loader(plan), label="y", weight="w", **options)
        made = xgboost.train(trees, getattr(xgboost, kind)(data), 4).predict(whole)
        found[kind] = float(np.abs(made - wanted).max())

    leaves = {"objective": "binary", "num_threads": 1, "deterministic": True, "verbose": -1}
    made = lightgbm.train(leaves, penstock.lightgbm.dataset(ps.Loader(plan), label="y", weight="w"), 4).predict(x)
    wanted = lightgbm.train(leaves, lightgbm.Dataset(x, y, weight=weight), 4).predict(x)
    found["LightGBM"] = float(np.abs(made - wanted).max())
    rows = penstock.lightgbm.Sequence(ps.Loader(plan), FEATURES)
    found["rows"] = [
        len(rows),
        bool((rows[[3, 999, 130]] == x[[3, 999, 130]]).all()),
        bool((rows[-1] == x[-1]).all()),
        bool((rows[5:140] == x[5:140]).all()),
    ]

    model, one_by_one = SGDClassifier(random_state=0), SGDClassifier(random_state=0)
    with ps.Loader(plan) as loader:
        for number, batch in enumerate(loader):
            features = np.stack([batch[name] for name in FEATURES], axis=1)
            model.partial_fit(features, batch["y"], classes=[0, 1])
            at = slice(128 * number, 128 * number + len(features))
            one_by_one.partial_fit(x[at], y[at], classes=[0, 1])
    found["scikit-learn"] = float(np.abs(model.coef_ - one_by_one.coef_).max())

    text = ps.Loader(ps.read(folder / "t.parquet").batch(128))
    found["errors"] = [
        raised(lambda: xgboost.QuantileDMatrix(penstock.xgboost.DataIter(text, label="y"))),
        raised(lambda: xgboost.QuantileDMatrix(penstock.xgboost.DataIter(ps.Loader(plan), label="z"))),
        raised(lambda: penstock.lightgbm.dataset(text, label="y")),
        raised(lambda: penstock.lightgbm.dataset(plan, label="y")),  # type: ignore[arg-type]
        raised(lambda: penstock.xgboost.DataIter(plan, label="y")),  # type: ignore[arg-type]
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
