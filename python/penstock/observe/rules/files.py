"""Reading files of this machine limits: many small ones, or a slow disk."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice

#: A smaller file costs more to open than to read; a store with fewer is none of small files.
_SMALL_BYTES, _MANY = 256 << 10, 1000
#: Of the cores, waiting for disks.
_DISK = 0.1


def files(seen: SeenRun) -> RuleFinding | None:
    """The slowest stage reads, and from no store."""
    snapshot, slow = seen.snapshot, seen.slowest
    plan = snapshot.plan
    if seen.is_fed or slow.kind != "io" or slow.busy < 0.3 or snapshot.storage:
        return None
    if plan.files >= _MANY and plan.file_bytes < _SMALL_BYTES:
        advice = Advice(
            rule="small_local_files",
            evidence=f"{plan.files:,} files of {plan.file_bytes / 1e3:,.1f} KB in the mean",
            remedy="reading is the limit: there are many small files, each of which is opened; combine small files into larger ones",
            change="dataset.write(OUT, format='webdataset'), or tar, TFRecord, MDS, Parquet",
            gain=seen.gain(slow, cores=_cores(seen)),
        )
    elif not plan.files:
        advice = Advice(
            rule="slow_source",
            evidence=f"{slow.name!r} takes {1000 * slow.item_s.p50_s:,.3g} ms an item, {slow.cpu:.0%} of it on a CPU",
            remedy="reading is the limit: the iterable or stream gives rows too slowly; make it faster, several of them, or files of it",
            change="dataset.write(OUT, format=…) once, and read that",
            gain=seen.gain(slow),
        )
    else:
        waits = snapshot.machine.mean_io_wait
        advice = Advice(
            rule="slow_disk",
            evidence=f"{slow.name!r} reads {slow.bytes_per_s / 1e6:,.0f} MB/s, and cores wait for disks {waits:.0%} of the time",
            remedy="reading is the limit: put the data on a faster disk, compress it, or combine small files into larger ones",
            change="a local NVMe, or dataset.cache()",
            gain=seen.gain(slow, cores=_cores(seen)),
        )
    return RuleFinding(bottleneck=slow.name, advice=advice)


def _cores(seen: SeenRun) -> float:
    """Cores that reading uses: native threads read for the stage's own, which wait meanwhile."""
    return min(seen.cores_used, seen.slowest.busy * seen.usable)
