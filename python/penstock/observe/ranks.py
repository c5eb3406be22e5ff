"""The other ranks of a training, by the snapshots that their processes put into the folder."""

from __future__ import annotations

from penstock.observe.folder import read_snapshots
from penstock.observe.snapshot import Identity, RankFigures, Snapshot


def other_ranks(loader: Identity) -> tuple[RankFigures, ...]:
    """Of the same training and data: this machine's, and others' where $PENSTOCK_OBSERVE_DIR is a folder that all see."""
    found = dict[int, Snapshot]()
    for one in read_snapshots():
        other = one.loader
        is_alike = all(other[name] == loader[name] for name in ("training", "name", "world_size"))
        if not is_alike or other.rank == loader.rank:
            continue
        before = found.get(other.rank)
        if before is None or other.number == loader.number or one.at > before.at:
            found[other.rank] = one
    return tuple(_figures(one) for _, one in sorted(found.items()))


def _figures(one: Snapshot) -> RankFigures:
    return RankFigures(
        rank=one.loader.rank,
        host=one.loader.host,
        pid=one.loader.pid,
        at=one.at,
        samples_per_s=one.steady_samples_per_s,
        waited=one.wait.mean_s / max(1e-12, one.wait.mean_s + one.step.mean_s),
        ready=one.ready,
        step_s=one.step,
    )
