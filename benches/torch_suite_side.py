"""Runs tests of test_dataloader.py in this process, with the DataLoader that $PENSTOCK_SUITE_SIDE names; torch_suite.py copies it beside them.

    python torch_suite_side.py RESULTS [TEST …]

Each test's beginning and end are lines of JSON in RESULTS; without tests, their names are. Processes that multiprocessing starts afresh import this file, too, so that tests have the same DataLoader there.
"""

# ruff: noqa: N802, N815, SLF001  # names of unittest; numbers of the DataLoader that are nobody else's

from __future__ import annotations

import json
import os
import sys
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.utils.data

SIDE = os.environ["PENSTOCK_SUITE_SIDE"]

if SIDE != "torch":
    from penstock.torch import DataLoader, fetching

    torch.utils.data.DataLoader = torch.utils.data.dataloader.DataLoader = DataLoader  # type: ignore[misc]
    if SIDE == "processes":  # batches are worth a process however short they are, and processes are waited for
        begin = fetching.Workers.begin

        def begin_and_wait(workers: Any, *given: Any) -> None:
            begin(workers, *given)
            workers._starting.join()

        fetching._WORTH_S, fetching._SOON_S, fetching._MEASURED = 0.0, 0.0, 10**9
        fetching.Workers.begin = begin_and_wait  # type: ignore[method-assign]


class Results(unittest.TestResult):
    """Writes what came of each test to a file, at once: the process may not live until the end."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path, self.found = Path(path), {"outcome": "passed", "said": ""}

    def write(self, **line: Any) -> None:
        with self.path.open("a") as out:
            out.write(json.dumps(line) + "\n")

    def startTest(self, test: unittest.TestCase) -> None:
        self.found = {"outcome": "passed", "said": ""}
        self.write(test=name_of(test), began=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        self.write(test=name_of(test), **self.found)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.found = {"outcome": "failed", "said": "".join(traceback.format_exception(*err))[-4000:]}

    addFailure = addError

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.found = {"outcome": "skipped", "said": reason}

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.found = {"outcome": "failed", "said": "passed, and was expected to fail"}


def name_of(test: unittest.TestCase) -> str:
    return test.id().removeprefix("test_dataloader.")


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_of(one)
        else:
            yield one


def main() -> None:
    results, *names = sys.argv[1:]
    sys.argv[:] = [str(Path(__file__).with_name("test_dataloader.py"))]  # torch.testing wants to see this alone
    import test_dataloader  # the copy beside this file

    found = Results(results)
    tests = {name_of(test): test for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(test_dataloader))}
    for name in names:
        unittest.TestSuite([tests[name]]).run(found)
    if not names:
        found.write(tests=[*tests])


if __name__ == "__main__":
    main()
