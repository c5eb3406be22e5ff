"""Which device of PyTorch's is meant, and why there is none."""

from __future__ import annotations

import difflib
import os
from typing import Any

import torch

from penstock.core.errors import PlanError, ProcessError
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.deliver.launchers import local_rank


def device_of(wanted: Any) -> torch.device:
    """The requested device; PlanError if there is none."""
    try:
        device = None if isinstance(wanted, bool | float) else torch.device(wanted)
    except (RuntimeError, TypeError):
        device = None
    if device is None:
        close = _meant(wanted)
        hint = f"; did you mean {close!r}?" if close else ""
        raise PlanError(f"device={quoted(wanted)}: not a PyTorch device; write 'cpu', 'cuda' or 'cuda:1'{hint}")
    if device.type == "meta":
        raise PlanError(f"device={quoted(wanted)}: holds no data; use device='cpu'")
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        return _usable(device, wanted)
    if getattr(torch.cuda, "_is_in_bad_fork", bool)():
        raise ProcessError(
            f"device={quoted(wanted)}: this process was forked from one that had used CUDA, where CUDA does not work; start it with the 'spawn' method"
        )
    if not torch.cuda.is_available():
        raise PlanError(f"device={quoted(wanted)}: {_why_no_cuda()}; use device='cpu'")
    index, count = torch.cuda.current_device() if device.index is None else device.index, torch.cuda.device_count()
    if index >= count:
        raise PlanError(f"device={quoted(wanted)}: there are {count} CUDA devices, counted from 0; name one of these")
    if device.index is None:
        _warn_of_shared(index, count)
    return torch.device("cuda", index)


def _warn_of_shared(index: int, count: int) -> None:
    """Warns where "cuda" is the first device on a rank that is not the first of its machine: all ranks would train on one."""
    rank = local_rank()
    if rank and count > 1 and index == 0:
        warn(
            f"penstock: device='cuda' is cuda:0, and this is local rank {rank} of a machine with {count} CUDA devices, so that all its ranks would use the "
            f"first; call torch.cuda.set_device({rank}) before the Loader is made, or pass device='cuda:{rank}'"
        )


def _why_no_cuda() -> str:
    if not (torch.version.cuda or torch.version.hip):
        return f"this PyTorch ({torch.__version__}) is built without CUDA, so it sees no CUDA device"
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if name in os.environ:
            return f"this PyTorch sees no CUDA device, and {name}={quoted(os.environ[name])} in the environment says which it may see"
    return "this PyTorch sees no CUDA device"


def _meant(wanted: Any) -> str:
    """The device whose name was probably misspelt; "" if none is similar."""
    kind, colon, index = str(wanted).lower().partition(":")
    if kind == "gpu":
        return f"cuda{colon}{index}"
    close = difflib.get_close_matches(kind.rstrip("0123456789"), ("cpu", "cuda", "mps", "xpu"), n=1)
    return f"{close[0]}{colon}{index}" if close else ""


def _usable(device: torch.device, wanted: Any) -> torch.device:
    """The device, which is neither CPU nor CUDA; PlanError if no tensor can be made on it."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, ImportError, AssertionError):
        raise PlanError(
            f"device={quoted(wanted)}: this PyTorch ({torch.__version__}) sees no {device.type} device on this machine; use device='cpu'"
        ) from None
    return device
