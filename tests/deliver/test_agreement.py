"""How ranks compare what their loaders do, over a store that tests watch; test_group.py has real ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.deliver import agreement
from penstock.deliver.agreement import Agreement, Members, WrongError
from penstock.deliver.ranks import ProcessGroup, Ranks


class Watched:
    """A store that counts what it is asked."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.asked = 0

    def set(self, key: str, value: str) -> None:
        self.asked += 1
        self.values[key] = value

    def get(self, key: str) -> bytes:
        self.asked += 1
        return self.values[key].encode()

    def check(self, keys: list[str]) -> bool:
        self.asked += 1
        return all(key in self.values for key in keys)

    def add(self, key: str, amount: int) -> int:
        self.asked += 1
        self.values[key] = str(int(self.values.get(key, 0)) + amount)
        return int(self.values[key])

    def has_extended_api(self) -> bool:
        return True

    def multi_get(self, keys: list[str]) -> list[bytes]:
        self.asked += 1
        return [self.values[key].encode() for key in keys]


class Gone:
    """A store whose host ended."""

    def __getattr__(self, _: str) -> Any:
        raise RuntimeError("Connection reset by peer")


class Text:
    """What a rank says: a text, in which capitals do not count."""

    def __init__(self, text: str) -> None:
        self.text = text

    def difference(self, other: str) -> tuple[str, bool]:
        return ("" if other == self.text else f"{other} is {self.text}"), other.lower() != self.text.lower()


def ranks_of(count: int, store: Watched) -> list[tuple[Agreement, Members]]:
    """Loaders of several ranks, made at one place in the code."""
    made = [Agreement() for _ in range(count)]
    for one in made:
        one._where = "here"
    return [(one, Members(rank, range(count), store)) for rank, one in enumerate(made)]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_AGREE_S", "_EQUAL_S", "_READ_S"):
        monkeypatch.setattr(agreement, name, 0.02)


def test_few_requests_however_many_ranks() -> None:
    store = Watched()
    ranks = ranks_of(256, store)
    for one, members in ranks:
        one.announce(members, "a")
    store.asked = 0
    assert ranks[7][0].agree(ranks[7][1], Text("a"))
    assert store.asked <= 8


def test_late_ranks_are_named() -> None:
    store = Watched()
    ranks = ranks_of(64, store)
    for one, members in ranks:
        if members.me not in (3, 17, 63):
            one.announce(members, "a")
    with pytest.warns(UserWarning, match=r"ranks 3, 17, 63 of 64 did not make this loader within 0.02 s"):
        assert not ranks[0][0].agree(ranks[0][1], Text("a"))
    assert not ranks[0][0].agree(ranks[0][1], Text("a")), "no second warning, and no waiting"
    for rank in (3, 17, 63):
        ranks[rank][0].announce(ranks[rank][1], "b", is_final=True)
    with pytest.raises(ps.PlanError, match="from ranks 3, 17, 63 to this one"):
        ranks[0][0].agree(ranks[0][1], Text("a"))


def test_many_ranks_that_differ_are_cut_short() -> None:
    ranks = ranks_of(64, Watched())
    for one, members in ranks:
        one.announce(members, "a" if members.me < 50 else "b", is_final=True)
    with pytest.raises(
        ps.PlanError, match=r"from ranks 50, 51, 52, 53, 54, 55, 56, 57 and 6 more to this one, rank 0: b is a\. Give"
    ):
        ranks[0][0].agree(ranks[0][1], Text("a"))


def test_what_may_differ_is_a_warning() -> None:
    ranks = ranks_of(2, Watched())
    ranks[1][0].announce(ranks[1][1], "A")
    with pytest.warns(
        UserWarning, match="the ranks' functions hold other values: from rank 1 to this one, rank 0: A is a"
    ):
        assert ranks[0][0].agree(ranks[0][1], Text("a"))


def test_a_rank_that_reports_what_is_wrong_there() -> None:
    ranks = ranks_of(2, Watched())
    ranks[1][0].report(ranks[1][1], "given 3 of 2", is_of_ranks=True)
    with pytest.raises(WrongError, match="given 3 of 2"):
        ranks[0][0].agree(ranks[0][1], Text("a"))
    ranks[1][0].report(ranks[1][1], "no memory", is_of_ranks=False)
    with pytest.raises(ps.PlanError, match="Loader: not made on rank 1: no memory"):
        ranks[0][0].agree(ranks[0][1], Text("a"))


def test_loaders_are_told_apart_by_where_they_are_made() -> None:
    def make() -> Agreement:
        return Agreement()

    one, other = make(), make()
    in_a_loop = [make() for _ in range(3)]
    assert len({made._where for made in (one, other, *in_a_loop)}) == 5
    assert [made._where[-2:] for made in in_a_loop] == ["-1", "-2", "-3"]


def test_a_store_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "_group", lambda _: ProcessGroup(0, 2, Gone()))
    dataset = ps.from_arrays({"id": np.arange(8)}).batch(4)
    with pytest.warns(UserWarning, match=r"the process group's store does not answer.*Connection reset by peer"):
        loader = ps.Loader(dataset)
    with pytest.warns(UserWarning, match="whether the ranks agree is not known"):
        assert [batch["id"].tolist() for batch in loader] == [[0, 1], [4, 5]]
    with pytest.raises(ps.PlanError, match="rank 0 of the 2"), pytest.warns(UserWarning, match="does not answer"):
        ps.Loader(dataset, rank=1, world_size=2)
