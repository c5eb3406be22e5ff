"""What decides how many actors there are, which items are kept, and how much is on its way; without a cluster."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.loader.child.messages import SentColumn
from penstock.loader.child.sent import Setup
from penstock.ray.digests import code_digest, item_digest, packed
from penstock.ray.kept import _LEAST_BYTES, KeptItems
from penstock.ray.wanting import LOOK_S, Wanting
from penstock.ray.window import LeaseWindow

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)


ITEM_BYTES = 4 * _LEAST_BYTES


class Maker:
    """Makes items, and counts them."""

    def __init__(self, room: int) -> None:
        self.kept = KeptItems[bytes](ITEM_BYTES * room)
        self.made = 0

    def ask(self, user: str, step: int) -> bytes:
        return self.kept.get(user, "rank 0", step, step, self._make, len).result()

    def _make(self) -> Future[bytes]:
        self.made += 1
        future: Future[bytes] = Future()
        future.set_result(bytes(ITEM_BYTES - _LEAST_BYTES))
        return future


def test_trainings_side_by_side_have_each_item_made_once() -> None:
    maker = Maker(room=5)
    for step in range(100):
        maker.ask("a", step)
        if step >= 3:
            maker.ask("b", step - 3)
    assert maker.made == 100


def test_of_a_training_that_is_far_behind_what_is_kept_is_what_it_comes_to_soonest() -> None:
    maker = Maker(room=11)
    maker.ask("b", 0)
    for step in range(1, 40):
        maker.ask("a", step)
    before = maker.made
    for step in range(1, 11):
        maker.ask("b", step)
    assert maker.made == before  # these ten stayed
    assert maker.kept.held_bytes <= 11 * ITEM_BYTES


def test_a_training_that_left_keeps_nothing() -> None:
    maker = Maker(room=2)
    maker.ask("b", 0)
    for step in range(1, 6):
        maker.ask("a", step)
    maker.kept.forget("b")
    maker.ask("a", 6)
    maker.ask("a", 7)
    before = maker.made
    maker.ask("c", 7)
    assert maker.made == before  # of those that nobody waits for, the last ones stay


def test_items_without_bytes_are_not_kept_for_ever() -> None:
    kept = KeptItems[bytes](1 << 20)
    for step in range(2_000):
        made: Future[bytes] = Future()
        made.set_result(b"")
        kept.get("a", "rank 0", step, step, lambda made=made: made, len)  # type: ignore[misc]
    assert len(kept._kept) <= 1_024


def test_what_failed_is_made_again() -> None:
    kept = KeptItems[bytes](100)

    def fails() -> Future[bytes]:
        future: Future[bytes] = Future()
        future.set_exception(ValueError("no"))
        return future

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            kept.get("a", "rank 0", 0, 0, fails, len).result()
    assert kept.found == 0


def looks(wanting: Wanting, waits: list[float], at_work: int | None = None, gain: float = 1.5) -> list[int]:
    """The numbers that are asked for, look by look, where the consumer waits for such parts of the time."""
    now = waited = samples = 0.0
    rate, asked = 100.0, []
    wanting.begin(0.0)
    for part in waits:
        now += LOOK_S
        waited += part * LOOK_S
        samples += rate * LOOK_S
        before = wanting.asks
        assert wanting.is_due(now)
        wanting.look(now, waited, int(samples), at_work=wanting.asks if at_work is None else at_work, most=16)
        rate *= gain if wanting.asks > before else 1.0
        asked.append(wanting.asks)
    return asked


def test_more_actors_while_the_consumer_waits_and_fewer_while_it_does_not() -> None:
    assert looks(Wanting(None), [0.9] * 4) == [2, 3, 4, 5]
    assert looks(Wanting(None), [0.06, 0.04, 0.04, 0.04]) == [2, 2, 2, 1]
    assert looks(Wanting(None), [0.9] * 4, at_work=0) == [1, 1, 1, 1]  # it waits for the first one to begin
    assert looks(Wanting(None), [0.9] * 40)[-1] == 16
    fixed = Wanting(8)
    assert not fixed.is_due(1e9)
    assert fixed.asks == 8


def test_where_more_actors_give_nothing_no_more_are_asked_for() -> None:
    assert looks(Wanting(None), [0.9] * 8, gain=1.0) == [2] * 8


def test_an_actor_that_was_given_back_too_early_is_kept_longer_the_next_time() -> None:
    asked = looks(Wanting(None), [0.9, 0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert asked == [2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1]


def test_the_window_is_in_bytes_and_shrinks_where_a_store_was_full() -> None:
    window = LeaseWindow()
    window.begin(1 << 20)
    window.has_room(100 << 20, 10 << 20, users=1)
    assert window.items(24) == 24
    assert window.items(240) == 30
    assert window.here == 3
    window.has_room(100 << 20, 10 << 20, users=3)
    assert window.items(240) == 10
    window.begin(1 << 30)
    assert window.items(24) == 1  # a batch of 1 GB goes alone
    assert not window.shrink()
    window.begin(1)
    assert window.items(24) == 24
    assert window.shrink()
    assert window.items(24) == 12
    for _ in range(64):
        window.note(1)
    assert window.items(24) == 13
    window.note(50 << 20)  # larger than the plan said
    assert window.items(24) == 1


def sent(data: ps.Dataset, *others: str) -> str:
    return packed(Setup(dataset=data, options={}, log_level=30), *others).digest


def test_the_digest_is_of_all_that_decides_what_is_made() -> None:
    rows = np.arange(400_000).reshape(-1, 4)
    changed = rows.copy()
    changed[50_001, 2] += 1
    plain, other = ps.from_arrays({"x": rows}), ps.from_arrays({"x": changed})
    offset = 1

    def shifted(batch: Any) -> Any:
        return {"x": batch["x"] + offset}

    plans = [
        plain.batch(8),
        other.batch(8),
        plain.batch(16),
        plain.shuffle(seed=1).batch(8),
        plain.shuffle(seed=2).batch(8),
        plain.map(shifted).batch(8),
    ]
    digests = [sent(plan) for plan in plans]
    offset = 2
    digests += [sent(plans[-1]), sent(plans[0], "other options")]
    assert len({*digests}) == len(digests)
    assert sent(ps.from_arrays({"x": rows.copy()}).batch(8)) == digests[0]


def test_the_digest_does_not_depend_on_what_was_asked_of_a_plan(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": np.arange(1000)}), tmp_path / "rows.parquet", row_group_size=100)
    np.save(tmp_path / "rows.npy", np.arange(400).reshape(-1, 4))
    read = [ps.read(tmp_path / name) for name in ("rows.parquet", "rows.npy")]
    plans = [one.shuffle(seed=1).batch(4) for one in (*read, read[0].filter(ps.col("x") > 10), ps.mix([read[0]] * 2))]
    for plan in plans:
        first = sent(plan)
        repr(plan), len(plan), plan.explain(), plan.digest, plan.head(2)
        assert [*ps.Loader(plan)]
        assert sent(plan) == first


def test_the_code_of_functions_counts() -> None:
    plain = ps.from_arrays({"x": np.arange(8)})
    one, other = (plain.map(function).batch(2) for function in (lambda batch: batch, lambda batch: {**batch}))
    assert code_digest(one) != code_digest(other)


def digest(values: Any) -> bytes:
    return item_digest({"x": SentColumn(values, None)})  # type: ignore[arg-type]  # no field is looked at


def test_the_digest_of_an_item_is_of_what_it_holds_and_not_of_where_it_lies() -> None:
    lists = pa.array([[1, 2], None, [], [3]])
    texts = pa.array(["a", None, "bc"])
    one: list[Any] = [np.arange(12.0).reshape(3, 4), lists, texts, np.array(["a", 3], dtype=object)]
    again: list[Any] = [
        np.asfortranarray(one[0]),
        pa.concat_arrays([pa.array([[9]]), lists])[1:],
        pa.array(["x", "a", None, "bc", "y"])[1:4],
        np.array(["a", 3], dtype=object),
    ]
    assert list(map(digest, one)) == list(map(digest, again))
    others: list[Any] = [
        np.arange(12.0).reshape(4, 3),
        np.arange(12).reshape(3, 4),
        pa.array([[1, 2], [], [], [3]]),
        pa.array([[1], None, [2], [3]]),
        pa.array(["a", "", "bc"]),
        np.array(["a", 4], dtype=object),
    ]
    assert len({*map(digest, one), *map(digest, others)}) == len(one) + len(others)
