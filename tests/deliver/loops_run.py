"""Compiled steps, torch.profiler and a Fabric loop on batches of a loader, as a script of its own; prints what it saw as JSON."""

from __future__ import annotations

import json

import numpy as np
import torch
from lightning_fabric import Fabric
from torch._C._profiler import _ExperimentalConfig
from torch._dynamo.testing import CompileCounter
from torch.profiler import ProfilerActivity, profile

import penstock as ps

ids = np.arange(64)
dataset = ps.from_arrays({"id": ids, "image": np.zeros((64, 4, 4, 3), np.uint8)}).shuffle(seed=0).batch(8)


def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return (batch["image"].float() * 2 + batch["id"][:, None, None, None]).sum()


def step_of_tuple(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    ids, image = batch
    return (image.float() * 2 + ids[:, None, None, None]).sum()


compiled = {}
for structure in ("dict", "tuple", "namedtuple", "tensordict"):
    counter = CompileCounter()
    function = torch.compile(
        step if structure in ("dict", "tensordict") else step_of_tuple, backend=counter, fullgraph=True
    )
    for batch in ps.Loader(dataset, to="torch", structure=structure):
        function(batch)
    compiled[structure] = counter.frame_count
torch._dynamo.reset()

ranges = {}
for every in (False, True):
    with ps.Loader(dataset, to="torch") as loader:
        next(iter(loader))
        with profile(
            activities=[ProfilerActivity.CPU], experimental_config=_ExperimentalConfig(profile_all_threads=every)
        ) as seen:
            for batch in loader:
                step(batch)
    ranges[every] = sorted({event.name for event in seen.events() if event.name.startswith("penstock")})

fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
layer = torch.nn.Linear(48, 1)
model, optimizer = fabric.setup(layer, torch.optim.SGD(layer.parameters(), lr=0.01))
loader = ps.Loader(dataset, to="torch", device=fabric.device)
try:
    fabric.setup_dataloaders(loader)
    refused = ""
except TypeError as error:
    refused = str(error)
taken = []
for epoch in range(2):
    loader.set_epoch(epoch)
    for batch in loader:
        fabric.backward(model(batch["image"].flatten(1).float()).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        taken.append(batch["id"].tolist())
print(
    json.dumps({"compiled": compiled, "own": ranges[False], "all": ranges[True], "refused": refused, "fabric": taken})
)
