"""Ours from S3 while the line goes wrong: at 0, 5 and 20 % of faults of all kinds, the same pass over the same objects."""

from __future__ import annotations

import os
import sys
import time
import zlib
from typing import Any

from rich.console import Console

import penstock as ps
import s3_store
from work import REPOSITORY, work_folder

sys.path.insert(0, str(REPOSITORY / "tests"))

from support.faulty_proxy import Faults, proxy

SHARES = (0.0, 0.05, 0.20)


def under_faults(console: Console) -> list[dict[str, Any]]:
    """Rate, requests and exactness at each share of faults, beside the rate without any."""
    found: list[dict[str, Any]] = []
    with s3_store.store(work_folder() / "s3") as store:
        os.environ.update(store.environment)
        store.keep("packed-mds/")
        for number, share in enumerate((0.0, *SHARES)):
            faults = Faults(share=share, latency_s=0.03, bytes_per_s=30e6, seed=1)
            with proxy(store.port, faults) as port:
                os.environ.update(dict.fromkeys(s3_store.ENDPOINTS, f"http://127.0.0.1:{port}"))
                line = {"share": share, **one_pass(), "faults": dict(faults.counts)}
            if number == 0:
                continue  # the first pass of a process is slower than those that follow
            line["requests"] = sum(faults.counts.values())
            first = found[0] if found else line
            line["exact"] = line["crc"] == first["crc"]
            line["rate_to_faultless"] = line["mb_per_s"] / first["mb_per_s"]
            line["requests_to_faultless"] = line["requests"] / first["requests"]
            console.print({name: value for name, value in line.items() if name not in ("crc", "faults")})
            found.append(line)
    return found


def one_pass() -> dict[str, Any]:
    """One pass, in a new order's window of blocks, with a checksum of all that came."""
    began_at = time.perf_counter()
    crc = size = 0
    loader = ps.Loader(ps.read("s3://bench/packed-mds/").cache_local(0).shuffle(seed=0).batch(64))
    for batch in loader:
        for buffer in batch["data"].buffers()[1:]:
            crc, size = zlib.crc32(buffer, crc), size + buffer.size
    seconds = time.perf_counter() - began_at
    told = loader.stats()["storage"]
    loader.close()
    return {"crc": crc, "mb_per_s": size / seconds / 1e6, "retries": told["retries"], "hedges": told["hedges"]}
