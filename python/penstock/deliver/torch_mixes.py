"""MixUp and CutMix on a device of PyTorch's, by tensors' own operations."""

from __future__ import annotations

import torch

from penstock.core.columns.pixel_ops import Layout
from penstock.deliver.torch_pixels import inside


def mix(
    images: torch.Tensor,
    layout: Layout,
    partners: torch.Tensor,
    weights: torch.Tensor | None,
    cuts: torch.Tensor | None,
) -> None:
    """Mixes float32 images with their partners, in place, on the stream that is current: the CPU's numbers, bit for bit. For what they drew see `DeviceMix`.

    Beside them is one more batch meanwhile. No number is read back, so that nothing waits.
    """
    others = images.index_select(0, partners)
    if weights is not None:
        mine, other = (part[:, None, None, None] for part in weights.unbind(1))
        images.mul_(mine).add_(others.mul_(other))  # each rounded, as on the CPU; never fused
    if cuts is not None:
        height, width = images.shape[1:3] if layout == "NHWC" else images.shape[2:4]
        is_other = inside(cuts, height, width).unsqueeze(3 if layout == "NHWC" else 1)
        torch.where(is_other, others, images, out=images)
