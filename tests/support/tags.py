"""What a page of HTML holds: its tags, and what would load something or run."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


class Tags(HTMLParser):
    """The tags of a page, and what its attributes name."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.links = set[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.links += [
            value for name, value in attrs if name in ("src", "href", "srcset", "data") or name.startswith("on")
        ]


def tags_of(page: str) -> Tags:
    found = Tags()
    found.feed(page)
    return found
