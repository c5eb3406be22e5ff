"""Who ran when: what was resumed where, passes that were broken off, and ranks that ran at the same time with the same share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.observe.ledger.findings import Finding, Resume, Wrong
from penstock.observe.ledger.format import LedgerHeader
from penstock.observe.ledger.reader import LedgerFile
from penstock.observe.ledger.sizes import EpochSizes

#: Clocks of machines may differ by as much.
_CLOCKS_NS = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """What a process took without a break: from a position to another. end_ns: when the last step was written.

    is_loaded: whether it began with a state that was loaded. left: where the process was before, if its training loop left an epoch and went on
    further behind.
    """

    header: LedgerHeader
    file: str
    is_loaded: bool
    left: tuple[int, int] | None
    begin: tuple[int, int]
    end: tuple[int, int]
    begin_ns: int
    end_ns: int


def stretches(file: LedgerFile, sizes: EpochSizes) -> Iterator[Stretch]:
    """The stretches of a file, in order."""
    before: tuple[int, int] | None = None
    header, marks = file.header, [number for number, found in enumerate(file.records) if found.mark is not None]
    for turn, number in enumerate(marks):
        mark = file.records[number].mark
        assert mark is not None
        until = marks[turn + 1] if turn + 1 < len(marks) else len(file.records)
        heads = [found.head for found in file.records[number + 1 : until] if found.head is not None]
        here = sizes.normal((mark.epoch, mark.step))
        end = sizes.normal((heads[-1].epoch, heads[-1].step + heads[-1].steps)) if heads else here
        yield Stretch(
            header=header,
            file=file.name,
            is_loaded=mark.is_loaded,
            left=None if before is None or mark.is_loaded or here <= before else before,
            begin=here,
            end=end,
            begin_ns=mark.time_ns,
            end_ns=heads[-1].time_ns if heads else mark.time_ns,
        )
        before = end


def resumes_of(found: Sequence[Stretch], sizes: EpochSizes) -> list[Resume]:
    """All starts but the first one, each of all its ranks together: a rank that starts again, or elsewhere, is another start."""
    resumes: list[Resume] = []
    reached: tuple[int, int] | None = None
    for together in _starts(sorted(found, key=lambda one: one.begin_ns)):
        first = together[0]
        again = 0 if reached is None else sizes.between(first.begin, reached)
        if first.left is None and (reached is not None or first.begin != (0, 0) or first.is_loaded):
            resumes.append(
                Resume(
                    epoch=first.begin[0],
                    step=first.begin[1],
                    world_size=first.header.world_size,
                    is_loaded=first.is_loaded,
                    steps_again=max(0, again),
                )
            )
        ends = [one.end for one in together]
        reached = max([*ends, *([] if reached is None else [reached])])
    return resumes


def _starts(found: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    """Stretches of several ranks that began at one position, together."""
    together: list[Stretch] = []
    for one in found:
        is_same = bool(together) and _kind(one) == _kind(together[0])
        if together and (not is_same or any(other.header.rank == one.header.rank for other in together)):
            yield together
            together = []
        together.append(one)
    if together:
        yield together


def _kind(one: Stretch) -> tuple[int, tuple[int, int], bool]:
    return one.header.world_size, one.begin, one.is_loaded


def broken_off(found: Sequence[Stretch]) -> dict[int, int]:
    """Epochs that the training loop itself left before their end, and after how many steps."""
    left: dict[int, int] = {}
    for epoch, step in (one.left for one in found if one.left is not None):
        if step:
            left[epoch] = min(left.get(epoch, step), step)
    return left


def missing_ledgers(found: Sequence[Stretch]) -> list[Finding]:
    """Ranks of which there is no record from a start up to where the next one resumed, though other ranks of that start have one.

    Goes back from the newest start: the state that it began with was saved by the newest start before it that got so far. The steps
    between may have been recorded by earlier starts too, which does not prove that this rank took them.
    """
    starts: dict[tuple[int, tuple[int, int], bool], list[Stretch]] = {}
    for one in sorted(found, key=lambda one: one.begin_ns):
        starts[_kind(one)] = [*starts.pop(_kind(one), []), one]  # in the order of the newest of each
    together, wrong = list(starts.values()), list[Finding]()
    newest = together.pop() if together else []
    goal = (max(one.end for one in newest)[0], 0) if newest else (0, 0)
    while newest:
        wrong += _absent(newest, goal)
        goal = min(one.begin if one.left is None else one.left for one in newest)
        before = [some for some in together if some[0].begin <= goal <= max(one.end for one in some)]
        newest = before[-1] if before else []
        together = together[: together.index(newest)] if before else []
    return wrong


def _absent(start: Sequence[Stretch], goal: tuple[int, int]) -> Iterator[Finding]:
    header, (epoch, step) = start[0].header, start[0].begin
    if (epoch, step) >= goal:
        return
    first_rank = header.rank - header.place
    for place in range(header.places):
        rank = first_rank + place
        end = max((one.end for one in start if one.header.rank == rank), default=None)
        if end is None or end < goal:
            lacks = "no ledger" if end is None else f"a ledger that ends at epoch {end[0]}, step {end[1]:,}"
            yield Finding(
                wrong=Wrong.MISSING_LEDGER,
                epoch=epoch,
                step=step,
                words=f"rank {rank} of {header.world_size} has {lacks}, of the start at epoch {epoch}, step {step:,}, that got to epoch {goal[0]}, "
                f"step {goal[1]:,}; pass its ledger too",
            )


def jumps(file: LedgerFile, sizes: EpochSizes) -> Iterator[Finding]:
    """Steps that do not follow the ones before them in a file, without a mark."""
    here: tuple[int, int] | None = None
    for found in file.records:
        if found.mark is not None:
            here = sizes.normal((found.mark.epoch, found.mark.step))
        if found.head is None:
            continue
        epoch, step = found.head.epoch, found.head.step
        if here != (epoch, step):
            after = "the beginning" if here is None else f"epoch {here[0]}, step {here[1]:,}"
            yield Finding(
                wrong=Wrong.MISSING_LEDGER,
                epoch=epoch,
                step=step,
                words=f"{file.name}: epoch {epoch}, step {step:,} follows where {after} belongs; records are missing between them",
            )
        here = sizes.normal((epoch, step + found.head.steps))


def overlaps(found: Sequence[Stretch]) -> list[Finding]:
    """Processes that took the same places of the global batch at the same time."""
    wrong: list[Finding] = []
    files: dict[str, list[Stretch]] = {}
    for one in found:
        files.setdefault(one.file, []).append(one)
    running: list[list[Stretch]] = []
    for mine in sorted(files.values(), key=lambda some: some[0].begin_ns):
        began_ns = mine[0].begin_ns
        running = [other for other in running if other[-1].end_ns > began_ns + _CLOCKS_NS]
        wrong += [_overlap(other[0], mine[0]) for other in running if _share_places(mine[0].header, other[0].header)]
        running.append(mine)
    return wrong


def _share_places(one: LedgerHeader, other: LedgerHeader) -> bool:
    first = max(one.place * other.places, other.place * one.places)
    last = min((one.place + 1) * other.places, (other.place + 1) * one.places)
    return first < last


def _overlap(one: Stretch, other: Stretch) -> Finding:
    who = [f"rank {some.header.rank} of {some.header.world_size} ({some.file})" for some in (one, other)]
    return Finding(
        wrong=Wrong.OVERLAPPING_RANKS,
        epoch=other.begin[0],
        step=other.begin[1],
        words=f"{who[1]} began while {who[0]} was running, and both take the same part of each batch; pass rank= and world_size=, "
        f"or start the processes with torchrun",
    )
