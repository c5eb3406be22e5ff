"""ResNet-18 and ResNet-50 (He et al. 2015; strides as in torchvision), so that the GPU's figures need no torchvision; and a training step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

#: Blocks of each of four widths, and by how much a block's output is wider.
MODELS = {"resnet18": ((2, 2, 2, 2), 1), "resnet50": ((3, 4, 6, 3), 4)}


def convolution(inner: int, outer: int, size: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inner, outer, size, stride, size // 2, bias=False), nn.BatchNorm2d(outer)]


class Block(nn.Module):
    """Two convolutions, or three of which the outer ones are narrow and wide, and a way around them."""

    def __init__(self, inner: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        outer = width * expansion
        if expansion == 1:
            layers = [*convolution(inner, width, 3, stride), nn.ReLU(inplace=True), *convolution(width, width, 3)]
        else:
            layers = [
                *convolution(inner, width, 1),
                nn.ReLU(inplace=True),
                *convolution(width, width, 3, stride),
                nn.ReLU(inplace=True),
                *convolution(width, outer, 1),
            ]
        self.body = nn.Sequential(*layers)
        self.around = nn.Sequential(*(convolution(inner, outer, 1, stride) if stride > 1 or inner != outer else []))
        self.last = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(self.body(x) + self.around(x))


def resnet(name: str, classes: int = 1000) -> nn.Module:
    """The model by its name."""
    depths, expansion = MODELS[name]
    layers: list[nn.Module] = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for number, depth in enumerate(depths):
        width = 64 << number
        for block in range(depth):
            layers.append(Block(inner, width, 2 if number and not block else 1, expansion))
            inner = width * expansion
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes))


def training_step(name: str, device: str) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A step as people train: channels last, bfloat16 by autocast, SGD with momentum. Nothing in it waits for the device."""
    torch.manual_seed(0)
    model = resnet(name).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels)
        loss.backward()
        optimizer.step()

    return step


def tiny_step(_: str, device: str) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """For dry runs: one layer, and no optimiser, whose imports take some seconds."""
    layer = nn.Linear(3, 10, device=device)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        nn.functional.cross_entropy(layer(images.mean((2, 3))), labels).backward()

    return step
