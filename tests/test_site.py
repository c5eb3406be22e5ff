"""The documentation as a site: every page can be reached, every link leads somewhere, and what is for developers is not in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
#: scripts/api_reference.py makes docs/api; test_api_reference.py looks at its pages.
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent.name not in ("api", "decisions"))
CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    words = [re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower() for heading in headings]
    return {re.sub(r"[\s-]+", "-", word) for word in words}


def links(page: Path) -> Iterator[tuple[str, str]]:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield path, anchor


def in_nav(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for where in entry.values():
            yield from [where] if isinstance(where, str) else in_nav(where)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_what_is_there(page: Path) -> None:
    home = ROOT if page.parent == ROOT else DOCS
    assert len(anchors(page)) >= 1
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        if target.parent == DOCS / "api":
            assert str(target.relative_to(DOCS)) in in_nav(CONFIG["nav"]), path
            continue
        assert target.exists(), path
        assert target.is_relative_to(home), f"{path} is not a page of the site"
        if anchor:
            assert anchor in anchors(target), f"{path}#{anchor}"


def test_every_page_is_in_the_navigation_and_notes_are_not() -> None:
    named = [name for name in in_nav(CONFIG["nav"]) if not name.startswith("api/")]
    assert sorted(named) == [
        str(page.relative_to(DOCS)) for page in sorted(PAGES, key=lambda one: str(one.relative_to(DOCS)))
    ]
    assert "decisions/" in CONFIG["exclude_docs"].split()
    assert "--strict" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndocs:")[2].partition("\n\n")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_no_file_of_tests_or_sources(page: Path) -> None:
    for line in page.read_text(encoding="utf-8").splitlines():
        assert not re.search(
            r"`[^`]*(\btests/|\btest_\w+\.py|rust/(src|tests)|penstock/\w+/\w+\.py|fetch/\w+\.py|docs/decisions)", line
        ), line


def test_every_example_is_on_its_page() -> None:
    page = (DOCS / "examples.md").read_text(encoding="utf-8")
    programs = {path.name for path in (ROOT / "examples").glob("*.py")} - {"local_data.py"}
    assert programs == set(re.findall(r"^\| `(\w+\.py)`", page, re.MULTILINE))


def test_figures_of_the_readme_stand_there_once_and_are_those_of_the_performance_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    performance = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert "bench.svg" not in readme  # other runs, with other ratios
    rows = [
        re.split(r"\s*\|\s*", line)
        for line in readme.partition("## How fast")[2].partition("\n## ")[0].splitlines()
        if line.startswith("|")
    ]
    assert len(rows) > 5
    for row in rows[2:]:
        name, rate = row[1].strip("*").partition(",")[0], row[2]
        assert re.search(rf"^\| \**{re.escape(name)}.*\| {rate} \|", performance, re.MULTILINE), row
