"""What verification found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from penstock.observe.ledger.findings import EpochFound, Report, Resume

#: As many findings of a kind, and resumes, are written out.
_SHOWN = 10


def verdict(report: Report) -> str:
    """The findings in one line."""
    if report.is_well and report.is_numbered:
        return "0 rows lost, 0 repeated, of those that came out of a lane stage, by their numbers alone"
    if report.is_well:
        return "0 rows lost, 0 repeated; steps that were taken again had the same rows"
    kinds = sorted({finding.wrong.value.replace("_", " ") for finding in report.wrong})
    return f"{report.lost:,} rows lost, {report.repeated:,} repeated; wrong: {', '.join(kinds)}"


def summary(report: Report) -> str:
    """What was verified, in one line."""
    ranks = " and ".join(filter(None, [", ".join(map(str, report.world_sizes[:-1])), str(report.world_sizes[-1])]))
    of = f"{report.files:,} ledgers" if report.files > 1 else "1 ledger"
    what = f"{of} of {ranks} rank{'s' if report.world_sizes[-1] > 1 else ''}"
    if not report.epochs:
        return what
    steps, rows = (sum(getattr(one, name) for one in report.epochs) for name in ("complete_steps", "rows"))
    first, last = report.epochs[0].epoch, report.epochs[-1].epoch
    return f"{what}: {steps:,} steps, {rows:,} rows, epoch{f's {first} … {last}' if last > first else f' {first}'}"


def epoch_state(epoch: EpochFound) -> str:
    """How far an epoch went: "complete"."""
    if epoch.complete_steps == epoch.steps:
        return "complete"
    if epoch.broken_off is not None:
        return f"left by the training loop after {epoch.broken_off:,} steps"
    if epoch.steps is None:
        return f"its end is not recorded; taken from step {epoch.first_step:,} on"
    begun = f"from step {epoch.first_step:,} on" if epoch.first_step else ""
    return begun if epoch.first_step + epoch.complete_steps == epoch.steps else f"not complete {begun}".rstrip()


def resume_line(resume: Resume) -> str:
    """resume_line(Resume(epoch=0, step=120, world_size=2, is_loaded=True, steps_again=8)) == "resumed at epoch 0, step 120, on 2 ranks (8 steps taken again)"."""
    how = "resumed" if resume.is_loaded else "started without a state"
    ranks = f"{resume.world_size} rank{'s' if resume.world_size > 1 else ''}"
    again = (
        f" ({resume.steps_again:,} step{'s' if resume.steps_again > 1 else ''} taken again)"
        if resume.steps_again
        else ""
    )
    return f"{how} at epoch {resume.epoch}, step {resume.step:,}, on {ranks}{again}"


def resume_lines(report: Report) -> Iterator[str]:
    """A line a resume, the first and last of many."""
    resumes = report.resumes
    if len(resumes) <= _SHOWN:
        yield from map(resume_line, resumes)
        return
    yield from map(resume_line, resumes[: _SHOWN // 2])
    again = sum(one.steps_again for one in resumes)
    yield f"… {len(resumes):,} resumes in all, {again:,} steps taken again"
    yield from map(resume_line, resumes[-_SHOWN // 2 :])


def wrong_lines(report: Report) -> Iterator[str]:
    """A line a finding; of many of a kind, the first ones."""
    shown: dict[str, int] = {}
    for finding in report.wrong:
        kind = finding.wrong.value
        shown[kind] = shown.get(kind, 0) + 1
        if shown[kind] <= _SHOWN:
            yield f"{kind.replace('_', ' ')}: {finding.words}"
    for kind, count in shown.items():
        if count > _SHOWN:
            yield f"{kind.replace('_', ' ')}: and {count - _SHOWN:,} more, see --json"


def figures(report: Report) -> dict[str, Any]:
    """All of it, as JSON has it."""
    found = asdict(report)
    return {"ok": report.is_well, "lost_rows": report.lost, "repeated_rows": report.repeated, **found}
