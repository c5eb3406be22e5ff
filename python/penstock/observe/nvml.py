"""What NVIDIA's driver says of GPUs, by its library NVML; the one importer of nvidia-ml-py.

NVML counts GPUs as they sit on the bus, CUDA those that CUDA_VISIBLE_DEVICES leaves. GPM, the counters of Hopper and later, tells a mean between two samples: the one that was taken by the last call, and
one of now. A driver, a GPU or a partition of one (MIG) that does not know a figure leaves it None.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pynvml

from penstock.observe.snapshot import Gpu

_log = logging.getLogger("penstock")


class Nvml:
    """The library, begun. Raises `pynvml.NVMLError` where there is none, or no driver.

    visible: which GPUs: UUIDs or their beginnings, or numbers on the bus; None for all. failures: how often which call failed, each of which was logged once.
    """

    def __init__(self, visible: Iterable[str] | None) -> None:
        self.failures: dict[str, int] = {}
        pynvml.nvmlInit()
        handles = [self._asked(pynvml.nvmlDeviceGetHandleByIndex, number) for number in range(_count())]
        self._devices = [
            _Device(self, number, handle)
            for number, handle in _chosen([*map(self._uuid, handles)], handles, visible)
            if handle is not None
        ]

    def now(self) -> tuple[Gpu, ...]:
        """The figures of each GPU that answers."""
        return tuple(found for device in self._devices if (found := device.now()) is not None)

    def ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """What a call answers; None where it fails."""
        return self._asked(call, *arguments)

    def _asked(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except (pynvml.NVMLError, UnicodeDecodeError) as error:
            name = call.__name__
            self.failures[name] = count = self.failures.get(name, 0) + 1
            if count == 1:
                _log.info("no figures of a GPU: %s: %s", name, error)
            return None

    def _uuid(self, handle: Any) -> str:
        return "" if handle is None else self._asked(pynvml.nvmlDeviceGetUUID, handle) or ""


def _count() -> int:
    return int(pynvml.nvmlDeviceGetCount())


def _chosen(uuids: list[str], handles: list[Any], visible: Iterable[str] | None) -> list[tuple[int, Any]]:
    """GPUs by their numbers; as CUDA does, those before the first that is not there."""
    if visible is None:
        return [*enumerate(handles)]
    found: list[tuple[int, Any]] = []
    for asked in visible:
        numbers = [int(asked)] if asked.isdigit() else [n for n, uuid in enumerate(uuids) if uuid.startswith(asked)]
        if not numbers or numbers[0] >= len(handles):
            break
        found.append((numbers[0], handles[numbers[0]]))
    return found


class _Device:
    """One GPU, with the last sample of its counters."""

    def __init__(self, nvml: Nvml, number: int, handle: Any) -> None:
        self._ask, self._number, self._handle = nvml.ask, number, handle
        self._name = str(self._ask(pynvml.nvmlDeviceGetName, handle) or "GPU")
        support = self._ask(pynvml.nvmlGpmQueryDeviceSupport, handle)
        has_counters = support is not None and bool(support.isSupportedDevice)
        self._samples = [self._ask(pynvml.nvmlGpmSampleAlloc) for _ in range(2)] if has_counters else [None]
        self._has_last = False

    def now(self) -> Gpu | None:
        """Its figures; None if it does not even know its memory."""
        memory = self._ask(pynvml.nvmlDeviceGetMemoryInfo, self._handle)
        if memory is None:
            return None
        used = self._ask(pynvml.nvmlDeviceGetUtilizationRates, self._handle)
        milliwatts = self._ask(pynvml.nvmlDeviceGetPowerUsage, self._handle)
        sm, tensor = (None, None) if None in self._samples else self._activity()
        return Gpu(
            index=self._number,
            name=self._name,
            kernel_time=None if used is None else min(1.0, used.gpu / 100),
            memory_bytes=int(memory.used),
            memory_limit_bytes=int(memory.total),
            power_w=None if milliwatts is None else milliwatts / 1000,
            sm=sm,
            tensor=tensor,
        )

    def _activity(self) -> tuple[float | None, float | None]:
        last, new = self._samples
        if self._ask(pynvml.nvmlGpmSampleGet, self._handle, new) is None:
            self._has_last = False
            return None, None
        had_last, self._has_last = self._has_last, True
        self._samples = [new, last]
        if not had_last:
            return None, None
        wanted = pynvml.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 2
        wanted.sample1, wanted.sample2 = last, new
        wanted.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
        wanted.metrics[1].metricId = pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL
        if self._ask(pynvml.nvmlGpmMetricsGet, wanted) is None:
            return None, None
        return _share(wanted.metrics[0]), _share(wanted.metrics[1])


def _share(metric: Any) -> float | None:
    """A metric of per cents as a share; None for what the GPU does not tell, or what is no share."""
    share = metric.value / 100
    return share if metric.nvmlReturn == pynvml.NVML_SUCCESS and 0 <= share <= 1 else None
