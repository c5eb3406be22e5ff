"""`penstock.ray.Loader` on clusters of several nodes; what is tested stands in the other files of this folder, which run in processes of their own."""

from __future__ import annotations

import importlib.util

import pytest

from support.other_machine import can_pretend
from support.ray_cases import run_cases

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]


@pytest.mark.timeout(630)
def test_batches_actors_and_sharing() -> None:
    run_cases("units.py", "batches.py", "sharing.py", timeout_s=500)


@pytest.mark.long
@pytest.mark.timeout(930)
def test_the_same_with_every_variant() -> None:
    run_cases("batches.py", "sharing.py", timeout_s=900, marks="long")


@pytest.mark.long
@pytest.mark.timeout(630)
def test_bad_input() -> None:
    run_cases("bad_input.py", timeout_s=600, marks="")


@pytest.mark.long
@pytest.mark.timeout(630)
def test_full_stores() -> None:
    run_cases("full_store.py", timeout_s=600, marks="")


@pytest.mark.long
@pytest.mark.timeout(1230)
def test_a_hundred_faults() -> None:
    run_cases("faults.py", timeout_s=1200, marks="")


@pytest.mark.long
@pytest.mark.timeout(430)
def test_another_machine_behind_a_slow_link() -> None:
    if not can_pretend():
        pytest.skip("no other machine can be pretended here: that takes a superuser, namespaces and TUN")
    run_cases("other_machine.py", timeout_s=400, marks="")
