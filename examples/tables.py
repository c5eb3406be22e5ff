"""One recipe for PyTorch, XGBoost and one row served: python examples/tables.py [EPOCHS]

A CSV file of passengers, made up here, lacks ages and ports. The recipe is fitted on training rows alone, saved, and loaded where rows are served.
"""

import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import torch
import xgboost
from torch import nn

import penstock as ps
import penstock.xgboost

T = ps.table


def passengers(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    age, fare, port = rng.normal(35, 12, rows), rng.lognormal(3, 1, rows), rng.choice(["Cork", "Hull", "Brest"], rows)
    lived, lacks = (fare > 20) ^ (age > 50) ^ (port == "Hull"), rng.random((2, rows)) < 0.1
    return pa.table({
        "age": pa.array(age, mask=lacks[0]), "fare": fare, "port": pa.array(port, mask=lacks[1]), "lived": lived * 1
    })  # fmt: skip


def main() -> None:
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        pa.csv.write_csv(passengers(4000), f"{folder}/passengers.csv")
        data = ps.read(f"{folder}/passengers.csv", na_values=[""], nulls="nan")  # a port may be missing, too
        parts = data.split({"train": 0.9, "test": 0.1})
        fill = T.FillMissing("median", indicator=True)
        recipe = T.Recipe(fill, T.Standardize(), fare=[T.Log(), T.Standardize()], port=T.OneHot(), target="lived")
        fitted = recipe.fit(parts["train"]).matrix("x")
        train = parts["train"].transform(fitted)
        model = nn.Sequential(nn.Linear(len(fitted.feature_names), 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        with ps.Loader(train.shuffle(seed=0).batch(256), to="torch") as loader:
            for batch in (batch for _ in range(epochs) for batch in loader):
                loss = nn.functional.binary_cross_entropy_with_logits(model(batch["x"]), batch["lived"].float())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        rows = penstock.xgboost.DataIter(ps.Loader(train.batch(1024)), label="lived")
        trees = xgboost.train({"objective": "binary:logistic"}, xgboost.QuantileDMatrix(rows), num_boost_round=50)
        fitted.save(f"{folder}/recipe.json")
        served = T.load(f"{folder}/recipe.json").apply({"age": 62.0, "fare": 40.0, "port": None})["x"]
    said = torch.sigmoid(model(torch.from_numpy(served)[None])).item(), trees.inplace_predict(served[None])[0]
    print(f"one row of {len(served)} numbers: PyTorch says {said[0]:.2f}, XGBoost {said[1]:.2f}")


if __name__ == "__main__":
    main()
