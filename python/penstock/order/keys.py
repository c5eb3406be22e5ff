"""Purposes of random keys: a key made for one purpose says nothing about another."""

from __future__ import annotations

ORDER_KEY, TRANSFORM_KEY, SHARD_KEY, SOURCE_KEY = 1, 2, 3, 4
