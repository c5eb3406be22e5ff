"""The GPUs that this process uses, now: what the reporter asks, twice a second.

NVML is imported and begun only in a process that uses a GPU already: PyTorch holds memory of one, or JAX has begun its backend for GPUs. Who works with another framework says so by PENSTOCK_GPU=1;
PENSTOCK_GPU=0 says never. No framework is imported or begun by asking.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from penstock.observe.snapshot import Gpu

_log = logging.getLogger("penstock")
_SWITCH = "PENSTOCK_GPU"
#: Loaders of one process that ask within this time get the same figures.
_FRESH_S = 0.2


def gpus_now() -> tuple[Gpu, ...]:
    """The figures of the GPUs that this process uses; empty without a GPU, without nvidia-ml-py, and where the driver does not answer. Never raises."""
    return _watched.now()


def gpus_seen() -> tuple[Gpu, ...]:
    """What the last `gpus_now` told, at no cost."""
    return _watched.last


class _Watched:
    """The library once it is begun, and the last figures. Where it cannot begin, this is logged once, and not tried again in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nvml: Any = None
        self._is_over = False
        self._at = -_FRESH_S
        self.last: tuple[Gpu, ...] = ()

    def now(self) -> tuple[Gpu, ...]:
        """See `gpus_now`."""
        with self._lock:
            if not self._is_over and time.monotonic() - self._at >= _FRESH_S:
                self._at, self.last = time.monotonic(), self._asked()
            return self.last

    def _asked(self) -> tuple[Gpu, ...]:
        try:
            if self._nvml is None:
                if not (used := gpus_in_use()):
                    return ()
                from penstock.observe.nvml import Nvml

                self._nvml = Nvml(None if used == ["all"] else used)
            found: tuple[Gpu, ...] = self._nvml.now()
        except (
            Exception
        ) as error:  # no package, no library, another version of it: a training goes on without these figures
            self._is_over = True
            _log.info("no figures of GPUs: %s", error)
            return ()
        return found


_watched = _Watched()


def _begin_anew() -> None:
    """In a forked child, whose parent's library and locks are not its own."""
    global _watched
    _watched = _Watched()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def gpus_in_use() -> Sequence[str]:
    """Which GPUs this process uses, by UUID or by number on the bus; none where no framework has begun one, ["all"] for those that there are.

    PyTorch names those that it holds memory of; otherwise they are what CUDA_VISIBLE_DEVICES says.
    """
    asked = os.environ.get(_SWITCH, "")
    if asked == "0":
        return []
    held = _held_by_torch()
    if held:
        return held
    if asked != "1" and held is not None and not _has_jax_gpu():
        return []
    said = os.environ.get("CUDA_VISIBLE_DEVICES")
    return ["all"] if said is None else [one.strip() for one in said.split(",") if one.strip()]


def _held_by_torch() -> list[str] | None:
    """None where PyTorch has begun CUDA and does not tell, being older or newer than what is known of it."""
    cuda = sys.modules.get("torch.cuda")
    begun = getattr(cuda, "is_initialized", None)  # a module that is being imported has none yet
    if cuda is None or begun is None or not begun():
        return []
    try:
        numbers = [number for number in range(cuda.device_count()) if cuda.memory_reserved(number)]
        return [f"GPU-{cuda.get_device_properties(number).uuid}" for number in numbers]
    except Exception as error:
        _log.debug("which GPUs PyTorch uses: %s", error)
        return None


def _has_jax_gpu() -> bool:
    backends = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", ())
    return any(name in {"cuda", "gpu", "rocm"} for name in tuple(backends))
