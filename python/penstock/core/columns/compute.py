"""The functions of `pyarrow.compute`, which is imported when one is first used.

Most folders are opened without, and importing it would take a good part of that time. What `read` of a folder imports takes these functions from here.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    found = globals()[name] = getattr(import_module("pyarrow.compute"), name)
    return found
