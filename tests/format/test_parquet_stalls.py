"""A store that hangs behind a footer of Parquet that was read: whoever leaves the loop is held by no thread."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from servers.scripted import Asked, scripted
from support.seams import runs_of


@pytest.mark.parametrize(
    "columns", [{"x": np.arange(300_000)}, {"x": np.arange(300_000), "s": [f"row {n}" for n in range(300_000)]}]
)
def test_a_loader_whose_data_never_comes_can_be_closed(tmp_path: Path, columns: dict[str, object]) -> None:
    """Arrow asks for it in threads of its own. That threads are left behind would be a warning, after ten seconds."""
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=50_000)
    data, stalls, over, waits = (
        (tmp_path / "x.parquet").read_bytes(),
        threading.Event(),
        threading.Event(),
        threading.Event(),
    )

    def answer(asked: Asked) -> bytes | None:
        if stalls.is_set() and asked.range is not None and asked.range[1] < len(data):
            waits.set()
            over.wait(60)
        return asked.part(data)

    with scripted(answer) as script:
        dataset = ps.read(f"{script.url}/x.parquet").cache_local(0)
        loader = ps.Loader(dataset.shuffle(seed=0).batch(64))
        stalls.set()
        failed = list[BaseException]()

        def take() -> None:
            try:
                for _ in loader:
                    pass
            except ps.ProcessError as error:
                failed.append(error)

        thread = threading.Thread(target=take)
        thread.start()
        assert waits.wait(30)
        while not runs_of(loader):  # a batch is awaited a moment later
            time.sleep(0.01)
        loader.close()
        thread.join(30)
        assert not thread.is_alive()
        assert "closed while a batch was awaited" in str(failed[0])
        over.set()
