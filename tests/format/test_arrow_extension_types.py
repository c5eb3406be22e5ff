"""Extension types that a library registered, such as those of Hugging Face's datasets: their Python code reads what a damaged file says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.errors import DataError


class Shaped(pa.ExtensionType):  # type: ignore[misc]
    """Its shape is noted as JSON."""

    def __init__(self, shape: list[int]) -> None:
        self.shape = shape
        super().__init__(pa.int64(), "penstock.tests.shaped")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self.shape).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, noted: bytes) -> Any:
        return cls(json.loads(noted))


@pytest.fixture
def registered() -> Iterator[None]:
    pa.register_extension_type(Shaped([1]))
    yield
    pa.unregister_extension_type("penstock.tests.shaped")


@pytest.mark.usefixtures("registered")
def test_what_their_code_raises_is_an_error_of_the_file(tmp_path: Path) -> None:
    column = pa.ExtensionArray.from_storage(Shaped([12, 34]), pa.array([1, 2], pa.int64()))
    table = pa.table({"x": column})
    file = tmp_path / "a.arrow"
    with pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    whole = file.read_bytes()
    assert whole.count(b"[12, 34]") == 1
    file.write_bytes(whole.replace(b"[12, 34]", b"\xdb12, 34]"))
    with pytest.raises(DataError, match=r"a\.arrow: "):
        ps.read(file)
