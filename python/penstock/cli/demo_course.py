"""What the demo trains, and on what.

The full demo trains a PyTorch network on photographs. The quick one needs only Penstock's own dependencies: it trains a
softmax regression in NumPy on drawings.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.cli.demo_data import Recipe
from penstock.cli.demo_drawings import Drawings
from penstock.cli.demo_photographs import Photographs
from penstock.cli.demo_proof import Framework
from penstock.cli.demo_softmax import SoftmaxTrainer
from penstock.core.errors import PlanError
from penstock.loader import Loader


class Trainer(Protocol):
    """A model with its optimizer."""

    def step(self, batch: dict[str, Any]) -> tuple[float, float]:
        """Train on one batch; returns its loss and accuracy."""

    def accuracy(self, loader: Loader) -> float:
        """Share of samples that the model classifies correctly, over one pass."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """A model and its images.

    images: what they are, with {classes} for the number; trainer: makes one from the numbers of classes and steps;
    needed: packages beyond Penstock's own, module -> name.
    """

    recipe: Recipe
    images: str
    framework: Framework
    trainer: Callable[[int, int], Trainer]
    epochs: int
    needed: dict[str, str] = field(default_factory=dict)

    def check_installed(self) -> None:
        """PlanError if packages are missing."""
        missing = [name for module, name in self.needed.items() if importlib.util.find_spec(module) is None]
        if missing:
            raise PlanError(
                f"the demo needs {', '.join(missing)}; pip install 'penstock[demo]', "
                f"or run penstock demo --quick, which needs none of them"
            )


def _torch_trainer(classes: int, steps: int) -> Trainer:
    from penstock.cli.demo_train import TorchTrainer

    return TorchTrainer(classes, steps)


FULL = Course(
    recipe=Photographs(),
    images="crops of {classes} photographs",
    framework="torch",
    trainer=_torch_trainer,
    epochs=8,
    needed={"torch": "torch", "skimage": "scikit-image", "sklearn": "scikit-learn", "PIL": "pillow"},
)

QUICK = Course(
    recipe=Drawings(),
    images="drawings in {classes} hues",
    framework="numpy",
    trainer=SoftmaxTrainer,
    epochs=3,
)
