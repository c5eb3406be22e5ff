"""A tokenizer run by the package `tokenizers`, where the native one does not do it exactly. The one file that tokenizes with that package; it has the methods of `kernels.TextTokenizer`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from penstock.core.columns.spec import Ids
from penstock.core.columns.text_parts import TextParts

#: Row, what was found, what to do.
Bad: TypeAlias = tuple[int, str, str]

_FORGED = 'say Tokenize(special_in_text="as_text") for its letters, or "as_token" for its id'


class LibraryTokenizer:
    """Of a tokenizer.json. ValueError in words for one that draws, or that the package refuses."""

    def __init__(self, text: str) -> None:
        said = json.loads(text)
        if said.get("model", {}).get("dropout"):
            raise ValueError("its dropout gives other ids every time; set it to null")
        self._text = text
        try:
            self._plain = self._configured(as_token=False, most=None, keeps_last=False)
        except Exception as error:  # the package raises plain Exceptions
            raise ValueError(f"the package tokenizers refuses it: {error}") from None
        self._check_ids(said)
        specials = [one["content"] for one in said.get("added_tokens") or () if one["special"]]
        self._specials = sorted(specials, key=len, reverse=True)
        self._with = lru_cache(maxsize=4)(self._configured)

    def _check_ids(self, said: Mapping[str, Any]) -> None:
        """ValueError for ids that int32 does not hold, that two tokens have, or that the package gives another token."""
        vocabulary = self._plain.get_vocab(with_added_tokens=True)
        if max(vocabulary.values(), default=0) > np.iinfo(np.int32).max:
            raise ValueError(f"the id {max(vocabulary.values())} is beyond int32")
        if len({*vocabulary.values()}) < len(vocabulary):
            raise ValueError("two of its tokens have one id")
        around = {*self._plain.encode("").ids, *self._plain.encode("", "").ids} - {*vocabulary.values()}
        if around:
            raise ValueError(f"its post-processor adds the id {min(around)}, which no token has")
        for one in said.get("added_tokens") or ():
            if vocabulary.get(one["content"]) != one["id"]:
                raise ValueError(f"the added token {one['content']!r} has id {one['id']}, and would get another one")

    def _configured(self, *, as_token: bool, most: int | None, keeps_last: bool) -> Any:
        made: Any = Tokenizer.from_str(self._text)
        made.no_padding()
        made.encode_special_tokens = not as_token
        if most is None:
            made.no_truncation()
        else:
            made.enable_truncation(most, direction="left" if keeps_last else "right")
        return made

    def has_special_ids(self) -> bool:
        """See `kernels.TextTokenizer`."""
        return True

    def id_of(self, token: str) -> int | None:
        """See `kernels.TextTokenizer`."""
        found: int | None = self._plain.token_to_id(token)
        return found

    def added(self) -> tuple[int, int]:
        """See `kernels.TextTokenizer`."""
        return self._plain.num_special_tokens_to_add(False), self._plain.num_special_tokens_to_add(True)

    def run(
        self,
        given: TextParts,
        second: TextParts | None,
        *,
        add_special: bool,
        special: str,
        most: int,
        keeps_last: bool,
        begin: int | None,
        end: int | None,
        spans: bool,
        types: bool,
        threads: int,  # the package has its own
    ) -> tuple[npt.NDArray[np.int32], Ids, npt.NDArray[np.uint8], npt.NDArray[np.int32], list[Bad]]:
        """See `kernels.TextTokenizer`."""
        bad: dict[int, tuple[str, str]] = {}
        columns = [self._texts(one, special, bad) for one in (given, second) if one is not None]
        rows = {row: texts for row, texts in enumerate(zip(*columns, strict=True)) if texts[0] is not None}
        bad |= {row: ("it has no second text", "fill it or leave the row out") for row in rows if None in rows[row]}
        rows = {row: texts for row, texts in rows.items() if row not in bad}
        around = [(one,) if one is not None else () for one in (begin, end)]
        room = None if most >= 1 << 62 else max(most - sum(map(len, around)), 0)
        inner = self._with(as_token=special == "as_token", most=room, keeps_last=keeps_last)
        inputs = [texts if len(texts) > 1 else texts[0] for texts in rows.values()]
        made = dict(zip(rows, inner.encode_batch(inputs, add_special_tokens=add_special), strict=True))
        ids = [(*around[0], *made[row].ids, *around[1]) if row in made else () for row in range(len(columns[0]))]
        edges = np.cumsum([0, *map(len, ids)], dtype=np.int64)
        kinds, places = list[int](), list[int]()
        for row, one in made.items():
            if types:
                kinds += [*(0 for _ in around[0]), *one.type_ids, *(len(columns) - 1 for _ in around[1])]
            if spans:
                places += _places(rows[row][0], one, around)
        found = [(row, *words) for row, words in sorted(bad.items())]
        flat = np.array([token for row in ids for token in row], np.int32)
        return flat, edges, np.array(kinds, np.uint8), np.array(places, np.int32), found

    def _texts(self, given: TextParts, special: str, bad: dict[int, tuple[str, str]]) -> list[str | None]:
        edges, data, missing = given
        whole, texts = data.tobytes(), list[str | None]()
        for row, (begin, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
            if missing is not None and missing[row]:
                texts.append(None)
                continue
            try:
                text = whole[begin:end].decode()
            except UnicodeDecodeError as error:
                texts.append("")
                bad[row] = (f"the text is no UTF-8 from byte {error.start} on", "repair the row or leave it out")
                continue
            texts.append(text)
            forged = next((one for one in self._specials if one in text), None) if special == "error" else None
            if forged is not None:
                bad[row] = (f"the text holds the special token {json.dumps(forged)}", _FORGED)
        return texts


def _places(text: str, encoding: Any, around: Sequence[Sequence[int]]) -> list[int]:
    """First and last byte of each token, one after another; of what was added, twice 0."""
    if text.isascii():
        places = [place for pair in encoding.offsets for place in pair]
    else:
        bytes_of = np.cumsum([0, *(len(letter.encode()) for letter in text)]).tolist()
        places = [bytes_of[place] for pair in encoding.offsets for place in pair]
    return [*(0 for _ in around[0] for _ in range(2)), *places, *(0 for _ in around[1] for _ in range(2))]
