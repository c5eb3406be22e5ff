"""Cores that are busy with data are late with launching kernels."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice

#: From this share of the cores on (SPDL's guide); a GPU that runs kernels for less of the time has room.
_CPU, _KERNELS = 0.4, 0.9


def kernel_launches(seen: SeenRun) -> RuleFinding | None:
    """A GPU is not always at work, no data is awaited, and the CPUs are busy."""
    snapshot = seen.snapshot
    busy = snapshot.machine.mean_cpu
    known = [gpu.kernel_time for gpu in snapshot.gpus if gpu.kernel_time is not None]
    if not known or not seen.is_fed or busy < _CPU:
        return None
    kernels = max(known)
    if kernels >= _KERNELS:
        return None
    advice = Advice(
        rule="kernel_launches",
        evidence=f"the CPUs are {busy:.0%} busy, and kernels run {kernels:.0%} of the time although no data is awaited",
        remedy="busy cores are late with launching kernels: have the loader use fewer of them",
        change=f"Loader(…, cpus={max(1, seen.usable // 2)}), or CUDA graphs",
        gain=_KERNELS / max(0.1, kernels) if kernels > 0.5 else None,
    )
    return RuleFinding(
        bottleneck="consumer",
        advice=advice,
        head=f"Data is not the bottleneck: the consumer waited for it {seen.waited:.1%} of the time; but the CPUs are {busy:.0%} busy, which delays the launch of kernels",
    )
