"""A ResNet on photographs, on two ranks: torchrun --nproc-per-node 2 examples/resnet_photographs.py [STEPS]"""

import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from local_data import photographs
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import penstock as ps


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        norms = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        convs = nn.Conv2d(inputs, outputs, 3, stride, 1), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.body = nn.Sequential(convs[0], norms[0], nn.ReLU(), convs[1], norms[1])
        self.skip = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as folder:
        photographs(Path(folder))
        ops = [
            ps.image.Decode(),
            ps.image.RandomResizedCrop(64),
            ps.image.RandomHorizontalFlip(),
            ps.image.Normalize(ps.image.IMAGENET),
        ]
        plan = ps.read(folder).shuffle(seed=0).transform(image=ops).batch(16, drop_last=True)
        model = DistributedDataParallel(
            nn.Sequential(Block(3, 16, 2), Block(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 2))
        )
        optimizer, done = torch.optim.AdamW(model.parameters(), 3e-3), 0
        with ps.Loader(plan, to="torch") as loader:  # this rank's half of every batch
            while done < steps:
                for batch in loader:
                    loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    done += 1
                print(f"rank {loader.rank} of {loader.world_size}, step {done}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
