"""What the recorder keeps: one event for each item in each stage, each wait of the consumer, and each decision of the tuner."""

from __future__ import annotations

from typing import NamedTuple


class Event(NamedTuple):
    """Something that took time. what: a stage's name, or "wait", "step", "tune". begin_ns, end_ns: of time.perf_counter_ns(). thread: the native id of its thread. epoch, first_step, steps: which item; -1 for none."""

    what: str
    kind: str
    begin_ns: int
    end_ns: int
    thread: int
    epoch: int = -1
    first_step: int = -1
    steps: int = 0
    samples: int = 0
    size_bytes: int = 0
