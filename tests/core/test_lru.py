"""The least recently used value goes first."""

from __future__ import annotations

from penstock.core.lru import Lru


def test_the_least_recently_used_is_evicted() -> None:
    evicted: list[str] = []
    lru: Lru[int, str] = Lru(2, evicted=evicted.append)
    assert lru.put(1, "a") == "a"
    lru.put(2, "b")
    assert lru.get(1) == "a"
    lru.put(3, "c")
    assert evicted == ["b"]
    assert lru.get(2) is None
    assert 1 in lru
    assert 2 not in lru
    lru.drop(1)
    lru.drop(9)
    assert evicted == ["b", "a"]
    lru.clear()
    assert evicted == ["b", "a", "c"]


def test_values_have_weights() -> None:
    lru: Lru[int, bytes] = Lru(10, weigh=len)
    lru.put(1, bytes(4))
    lru.put(2, bytes(4))
    lru.put(2, bytes(6))
    assert 1 in lru, "a replaced value weighs nothing"
    lru.put(3, bytes(5))
    assert [key for key in (1, 2, 3) if key in lru] == [3]
    lru.put(4, bytes(50))
    assert [key for key in (3, 4) if key in lru] == [4], "one may be larger than the limit"
