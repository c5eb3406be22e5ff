"""What Accelerate looks at while a loader is passed over, as it does at its own DataLoaders. Hugging Face's Trainer works with it."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import Any


def is_at_work(world_size: int) -> bool:
    """Whether this process has an Accelerator, over so many ranks."""
    state = sys.modules.get("accelerate.state")
    return state is not None and state.is_initialized() and state.PartialState().num_processes == world_size


class Seen:
    """The newest pass of a loader as Accelerate sees it: `gather_for_metrics` cuts what it gathers of the last step to `remainder` rows."""

    def __init__(self) -> None:
        self._pass: Any = None

    def begin(self, last_rows: int) -> None:
        """A pass begins whose last step has so many rows, without those that fill it up; 0 where nothing fills it up."""
        self.end()
        mixin: Any = importlib.import_module("accelerate.data_loader").DataLoaderStateMixin
        self._pass = type("Pass", (mixin,), {})()
        self._pass.gradient_state = sys.modules["accelerate.state"].GradientState()
        self._pass.begin()
        self._pass.remainder = last_rows

    def take_last(self) -> None:
        """The batch that is given to the user next is the last one of the pass."""
        if self._pass is not None:
            self._pass.end_of_dataloader = True

    def end(self) -> None:
        """The pass has ended, or was broken off."""
        seen, self._pass = self._pass, None
        if seen is not None:
            with suppress(AttributeError):  # of an Accelerator that is gone
                seen.end()
