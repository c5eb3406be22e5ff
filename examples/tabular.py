"""A model of a table in Parquet: python examples/tabular.py [EPOCHS]

The table is scikit-learn's of breast cancers. Numbers are standardised in the plan; a tenth of the rows tests what was learnt.
"""

import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import penstock as ps


def main() -> None:
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.manual_seed(0)
    table = load_breast_cancer()
    names = [name.replace(" ", "_") for name in table.feature_names]
    mean, scale = table.data.mean(axis=0), table.data.std(axis=0)

    def standardise(batch: dict) -> dict:
        numbers = np.stack([batch[name] for name in names], axis=1)
        return {"x": ((numbers - mean) / scale).astype(np.float32), "y": batch["y"].astype(np.float32)}

    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table({**dict(zip(names, table.data.T)), "y": table.target}), f"{folder}/table.parquet")
        parts = ps.read(f"{folder}/table.parquet").split({"train": 0.9, "test": 0.1}, seed=0)
        train = parts["train"].shuffle(seed=0).batch(32).map(standardise)
        test = parts["test"].batch(32).map(standardise)
        model = nn.Sequential(nn.Linear(len(names), 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        with ps.Loader(train, to="torch") as loader, ps.Loader(test, to="torch") as held_out:
            for _ in range(epochs):
                for batch in loader:
                    loss = nn.functional.binary_cross_entropy_with_logits(model(batch["x"]), batch["y"])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            right = [((model(batch["x"]) > 0) == batch["y"].bool()) for batch in held_out]
    print(f"right in {torch.cat(right).float().mean().item():.0%} of {len(torch.cat(right))} rows")


if __name__ == "__main__":
    main()
