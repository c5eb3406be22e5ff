"""SimCLR on photographs: two views of each, decoded once, and the loss that draws them together: python examples/simclr.py [STEPS]"""

import sys
import tempfile
from pathlib import Path

import torch
from local_data import photographs
from torch import nn
from torch.nn.functional import cross_entropy, normalize

import penstock as ps


def encoder() -> nn.Module:
    """A small network, and the head whose numbers are compared."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 32),
    )  # fmt: skip


def nt_xent(one: torch.Tensor, other: torch.Tensor, temperature: float = 0.5) -> torch.Tensor:
    """Of all images of a batch, a view is to be most like the other view of its own."""
    both = normalize(torch.cat([one, other]))
    likeness = (both @ both.T / temperature).fill_diagonal_(-torch.inf)
    return cross_entropy(likeness, torch.arange(len(both)).roll(len(one)))


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        photographs(Path(folder))
        simclr = ps.image.presets("simclr", size=64)
        plan = ps.read(folder).shuffle(seed=0).transform(**simclr.train).batch(32, steps=steps)
        model = encoder()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        with ps.Loader(plan, to="torch") as loader:
            for step, batch in enumerate(loader):
                loss = nt_xent(model(batch["image"]), model(batch["view"]))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 10 == 0 or step == steps - 1:
                    print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
