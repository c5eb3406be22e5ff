"""Names of objects that are easily taken for something else: spaces, case, composed letters, patterns, escapes."""

from __future__ import annotations

ODD_NAMES = [
    "a b.txt",
    "A B.txt",
    "caf\u00e9.txt",
    "cafe\u0301.txt",
    "[1]*.txt",
    "a%20b.txt",
    "a+b.txt",
    "#x?.txt",
    "日本.txt",
    "a&b=c.txt",
    "it's.txt",
    "{x,y}.txt",
    "a..b..txt",
]
