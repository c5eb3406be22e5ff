"""A cluster of several nodes for the cases in this folder, which `test_ray.py` runs in another process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from support.ray_cases import MARK


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two nodes, each a raylet of its own."""
    assert MARK in os.environ, "Ray's driver does not run in a process of other tests: see support/ray_cases.py"
    import ray

    from support.ray_loaders import STORE, begun_cluster

    memory = {"num_cpus": 2, "object_store_memory": STORE}
    made = begun_cluster(memory)
    made.second = made.add_node(**memory)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
