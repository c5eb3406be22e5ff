"""Delivery to PyTorch that runs the device's ops on the CPU: what a GPU would be given, without one."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.deliver import torch as delivery


class _OpsAfterwards(delivery.ToTorch):
    def __init__(self, device: Any = None) -> None:
        super().__init__(device)
        self.copies = True

    @property
    def on_device(self) -> Any:
        return delivery._pixels


def device_on_cpu(patch: pytest.MonkeyPatch) -> None:
    """Loaders to torch leave the end of chains of image ops to the "device" from now on."""
    patch.setattr(delivery, "ToTorch", _OpsAfterwards)
