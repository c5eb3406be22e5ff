"""benches/torch_suite.py finds out which tests pass, survives those that crash or hang, and wants a reason for each that does not pass with ours."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

BENCHES = Path(__file__).parents[2] / "benches"

#: A test-suite in small: it sees the loader that it is run with, whatever way it is imported.
SUITE = """
import multiprocessing
import os
import time
import unittest

import torch
from torch.utils.data import DataLoader


def name(queue):
    queue.put(DataLoader.__module__)


class TestAll(unittest.TestCase):
    def test_batches(self):
        self.assertEqual([len(batch) for batch in DataLoader([1, 2, 3], batch_size=2)], [2, 1])

    def test_skipped(self):
        self.skipTest("never")

    def test_wrong(self):
        with self.subTest():
            self.fail("with both")

    def test_crash(self):
        if "penstock" in DataLoader.__module__:
            os._exit(3)

    def test_hang(self):
        if "penstock" in torch.utils.data.DataLoader.__module__:
            time.sleep(600)

    def test_names(self):
        queue = multiprocessing.get_context("spawn").SimpleQueue()
        process = multiprocessing.get_context("spawn").Process(target=name, args=(queue,))
        process.start()
        self.assertEqual(queue.get(), DataLoader.__module__)
        process.join()
        self.fail("it is the same there")
"""


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHES))


def test_reasons_and_figures() -> None:
    from torch_suite import Outcome, judge, shown

    passed, failed = Outcome("passed", ""), Outcome("failed", "ValueError")
    found = {
        "torch": {"A.a": passed, "A.b": passed, "A.c": failed, "A.d": Outcome("skipped", "CUDA")},
        "penstock": {"A.a": passed, "A.b": failed, "A.c": failed, "A.d": failed},
        "processes": {"A.a": passed, "A.b": passed, "A.c": passed, "A.d": failed},
    }
    figures = judge(found, {"A.b": "looks at a private attribute"})
    assert (figures["passing"], figures["tests"]) == (2, {"failed": 1, "passed": 2, "skipped": 1})
    assert figures["sides"]["penstock"]["passed"] == 1
    assert figures["sides"]["penstock"]["failed"] == {"A.b": "looks at a private attribute"}
    assert figures["sides"]["processes"] == {"passed": 2, "failed": {}, "said": {}}
    assert judge(found, {})["sides"]["penstock"]["failed"] == {"A.b": ""}
    text = shown({**judge(found, {}), "torch": "2", "source": "here", "passed when run again": []})
    assert "ours: 1 of 2 pass" in text
    assert "A.b: NO REASON: ValueError" in text


@pytest.mark.long
def test_a_small_suite(tmp_path: Path) -> None:
    from torch_suite import failures, names_of, run_side

    (tmp_path / "test_dataloader.py").write_text(SUITE)
    shutil.copy(BENCHES / "torch_suite_side.py", tmp_path)
    names = [f"TestAll.test_{name}" for name in ("batches", "crash", "hang", "names", "skipped", "wrong")]
    assert names_of(tmp_path) == names
    found = {"torch": run_side(tmp_path, "torch", [name for name in names if name != "TestAll.test_names"], 60)}
    assert [one.outcome for one in found["torch"].values()] == ["passed", "passed", "passed", "skipped", "failed"]
    found["penstock"] = run_side(tmp_path, "penstock", names[1:3], 2) | run_side(tmp_path, "penstock", names[3:4], 60)
    assert [one.outcome for one in found["penstock"].values()] == ["crashed", "hung", "failed"]
    assert "it is the same there" in found["penstock"]["TestAll.test_names"].said
    found["penstock"] |= {name: one for name, one in found["torch"].items() if name not in names[1:3]}
    assert failures(found, "penstock") == names[1:3]
