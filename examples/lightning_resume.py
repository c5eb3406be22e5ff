"""Lightning, stopped in the middle of an epoch and resumed: python examples/lightning_resume.py

The second trainer continues with the batches that the first would have had next.
"""

import tempfile

import pytorch_lightning as lightning
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn

import penstock as ps


class Digits(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        self.seen: list[int] = []

    def training_step(self, batch: dict, _: int) -> torch.Tensor:
        self.seen.append(int(batch["number"][0]))
        return nn.functional.cross_entropy(self.model(batch["image"]), batch["label"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-3)


def loader() -> ps.Loader:
    images, labels = load_digits(return_X_y=True)
    columns = {
        "image": images.astype("float32"),
        "label": labels.astype("int64"),
        "number": torch.arange(len(labels)).numpy(),
    }
    return ps.Loader(ps.from_arrays(columns).shuffle(seed=0).batch(64, drop_last=True), to="torch")


def trainer(folder: str, steps: int) -> lightning.Trainer:
    keep = ModelCheckpoint(folder, "{step}", every_n_train_steps=17, save_top_k=-1)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return lightning.Trainer(max_steps=steps, accelerator="cpu", callbacks=[keep], default_root_dir=folder, **quiet)


def main() -> None:
    whole, first, second = Digits(), Digits(), Digits()
    with tempfile.TemporaryDirectory() as folder:
        trainer(f"{folder}/whole", 40).fit(whole, loader())
        trainer(folder, 17).fit(first, loader())
        trainer(folder, 40).fit(second, loader(), ckpt_path=f"{folder}/step=17.ckpt")
    assert first.seen + second.seen == whole.seen
    print(f"stopped after {len(first.seen)} steps, resumed for {len(second.seen)}: the same batches as without a stop")


if __name__ == "__main__":
    main()
