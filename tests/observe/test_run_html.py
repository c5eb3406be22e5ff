"""Pages of runs: one small file, with everything that is not ours escaped, whatever a run file holds."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import DataError
from penstock.observe.history import History, histories_of
from penstock.observe.page import page_of
from penstock.observe.run_html import beside_parts, run_parts
from penstock.observe.run_words import differences, facts_of, rows_beside
from penstock.observe.snapshot import Advice, Identity, Snapshot
from penstock.observe.snapshot_of import snapshot_of
from support.runs import a_run, stage
from support.tags import tags_of

MARKS = "<script>alert(1)</script>\"'&\x1b[2J\u202e<img src=x onerror=alert(1)>"
LIMIT = 300_000


def page(*snapshots: Snapshot) -> str:
    return page_of("run.jsonl", run_parts(histories_of(snapshots)))


def hostile() -> Snapshot:
    """Each text of a snapshot, and each name, is what somebody else would like to run."""

    def marked(value: Any) -> Any:
        if isinstance(value, str):
            return MARKS
        if isinstance(value, dict):
            return {name: marked(one) for name, one in value.items()}
        return [marked(one) for one in value] if isinstance(value, list) else value

    values = marked(next(a_run(1)).as_dict())
    values["decoders"] = {MARKS: 3}
    values["tuning"] = {
        "values": {MARKS: {"value": 3, "unit": MARKS, "fixed": True}},
        "decisions": [{"at_s": 0.1, "knob": MARKS, "from": 1, "to": 2, "why": MARKS}],
    }
    values["functions"] = [{"function": MARKS, "workers": MARKS, "why": MARKS}]
    return snapshot_of(values)


def test_what_is_not_ours_is_escaped() -> None:
    one = hostile()
    more = [replace(one, samples=one.samples + 99 * step, elapsed_s=step + 1.0, batches=step) for step in range(5)]
    both = page_of(MARKS, beside_parts([histories_of(more), histories_of(a_run(3))], [MARKS, "b"]))
    for told in (page(*more), both):
        tags = tags_of(told)
        assert not tags.tags & {"script", "img", "iframe", "object", "link"}
        assert tags.links == []
        assert "\x1b" not in told
        assert "\u202e" not in told
        assert told.count("&lt;script&gt;") > 10


def test_a_page_is_small_whatever_the_run() -> None:
    """A day, 1,000 ranks, stages and loaders without end, texts of any length."""
    wide = tuple(stage(f"{'&' * 200}{number}", "cpu", 1e3, 0.5, 0.1) for number in range(300))
    advice = tuple(
        Advice(rule="r", evidence="&" * 300, remedy="'" * 300, change="<" * 300, gain=2.0) for _ in range(300)
    )
    long = page(*a_run(20_000, ranks=1000, stages=wide, advice=advice))
    assert len(long.encode()) < LIMIT
    loaders = [replace(one, loader=Identity(pid=number, name="&" * 90)) for number in range(40) for one in a_run(300)]
    told = page(*loaders)
    assert len(told.encode()) < LIMIT
    assert "and 34 loaders more" in told
    both = page_of("", beside_parts([histories_of(a_run(3000)), histories_of(a_run(3000, rate=2000.0))], ["a", "b"]))
    assert len(both.encode()) < LIMIT


def test_two_runs_of_it_are_the_same_bytes() -> None:
    assert page(*a_run(500)) == page(*a_run(500))


def test_a_page_needs_nothing_else_and_says_what_the_run_says() -> None:
    told = page(*a_run(100))
    assert not re.search(r"https?://|@import|url\(|<script", told)
    for words in (
        "What to do",
        "Decode(size=256)",
        "up to 42% more",
        "The way of an item",
        "What the tuner did",
        "the rate rose",
        "How long it takes",
        "610 ms" if "610 ms" in told else "600 ms",
        "the others wait for rank 2 on node-00",
        "hits",
        "SMs at work 54%",
        "bad samples",
    ):
        assert words in told, words
    assert "prefers-color-scheme: dark" in told
    assert "@media print" in told


def test_every_path_that_is_drawn_is_of_numbers() -> None:
    drawn = re.findall(r" d='([^']*)'", page(*a_run(300)))
    assert len(drawn) > 20
    assert not [one for one in drawn if not re.fullmatch(r"([MLHVhvz]-?[\d.]*(?: -?[\d.]+)?)+", one)]


def test_a_run_of_one_snapshot_and_of_nothing() -> None:
    assert "One snapshot has no course over time" in page(next(a_run(1)))
    assert "No batch was made yet." in page(Snapshot())


def places(found: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = found if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ()
    return [way, *(more for name in below for more in places(found[name], (*way, name)))]


@pytest.mark.parametrize("wrong", ["text", -1e9, [], {}, [{}], 10**400, 1e300, True, None])
def test_any_value_anywhere_is_refused_or_drawn(wrong: Any) -> None:
    whole = next(a_run(1)).as_dict()
    for way in places(whole)[1:]:
        changed = json.loads(json.dumps(whole))
        inner = changed
        for name in way[:-1]:
            inner = inner[name]
        inner[way[-1]] = wrong
        try:
            snapshot = snapshot_of(changed)
        except DataError:
            continue
        history = History()
        for one in (next(a_run(1)), replace(snapshot, elapsed_s=max(1.0, snapshot.elapsed_s)), next(a_run(1))):
            history.add(one)
        drawn = page_of("x", run_parts([history]))
        assert "Where the time goes" in drawn or way[0] == "stages"
        assert drawn.count("nan") == drawn.count("inf") - drawn.count("info") == 0 or way, way
        assert [*rows_beside(history, history)]


def test_facts_are_json() -> None:
    (history,) = histories_of(a_run(50))
    facts = json.loads(json.dumps(facts_of(history), allow_nan=False))
    assert facts["samples"] == 25_000
    assert facts["straggler"] == 2
    assert len(facts["over_time"]) == 50


def beside(one: Snapshot, other: Snapshot) -> str:
    histories = [histories_of([each])[0] for each in (one, other)]
    return " ".join(differences(*histories, ["before.jsonl", "after.jsonl"]))


def test_two_runs_in_words() -> None:
    one = [*a_run(100)][-1]
    stages = (one.stages[0], stage("transform", "cpu", 1e3, 0.4, 0.07), stage("cache", "io", 1e3, 0.1, 0.01))
    said = beside(one, replace(one, steady_samples_per_s=1400.0, waited=0.01, bottleneck="consumer", stages=stages))
    assert "after.jsonl is 1.4 times as fast as before.jsonl: 1,400 samples/s, and 1,000 there." in said
    assert "It waited for data 1% of the time, before.jsonl 12%." in said
    assert "What limits it is the training; before.jsonl is limited by transform." in said
    assert "New stages: cache." in said
    assert "Stages that only before.jsonl has: map look_up." in said
    assert "The stage 'transform' takes 273 µs a sample, 820 µs in before.jsonl: 67% less." in said


def test_what_cannot_be_compared_is_said() -> None:
    one = [*a_run(100)][-1]
    assert "after.jsonl is as fast as before.jsonl" in beside(one, one)
    assert "after.jsonl made no samples" in beside(one, Snapshot())
    assert "had fewer than 20 batches" in beside(one, next(a_run(1)))
    other = replace(one, loader=replace(one.loader, world_size=8, name="other"))
    assert "It has 8 ranks, before.jsonl 4: the rates are of one rank." in beside(one, other)
    assert "They read different data" in beside(one, other)


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_asks_for_nothing_and_complains_of_nothing(tmp_path: Path) -> None:
    """The server counts what the page makes a browser ask for; the browser's own log says what it complains of."""
    (tmp_path / "run.html").write_text(
        page(*a_run(400), *a_run(40, loader=Identity(pid=1, name=MARKS))), encoding="utf-8"
    )
    asked: list[str] = []

    class Serves(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path), **options)

        def log_request(self, *_: Any) -> None:
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Serves) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/run.html"
        picture = tmp_path / "seen.png"
        command = [
            str(CHROMIUM),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'user'}",
            f"--screenshot={picture}",
            "--window-size=900,2000",
            address,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
        server.shutdown()
    assert [path for path in asked if path != "/favicon.ico"] == ["/run.html"]
    assert "CONSOLE" not in done.stderr
    assert picture.stat().st_size > 20_000


def test_a_loader_writes_its_page(tmp_path: Path) -> None:
    data = ps.from_arrays({MARKS: np.arange(512)}).batch(16)
    with ps.Loader(data) as loader:
        path = tmp_path / "run.html"
        assert "No batch was made yet." in loader.report(html=path)
        assert "No batch was made yet." in path.read_text(encoding="utf-8")
        for _ in range(2):
            list(loader)
            loader.close()  # nothing goes on, so that figures stay what they are
            text = loader.report(html=path)
        assert text.splitlines()[-1].split(":")[0] == loader.report().splitlines()[-1].split(":")[0]
        told = path.read_text(encoding="utf-8")
        assert "Where the time goes" in told
        assert "gather" in told
        with pytest.raises(ps.PlanError, match="name a file that can be written"):
            loader.report(html=tmp_path / "none" / "run.html")
        with pytest.raises(ps.PlanError, match="html"):
            loader.report(html=3)  # type: ignore[arg-type]
