"""`ps.profile(data)`: what is in a dataset, column by column, as an object that shows itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from penstock.core.arguments import check_progress, path_of
from penstock.core.errors import DataError, PlanError, SourceError
from penstock.core.files.whole import write_whole
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.profiling.blocks import blocks_of
from penstock.profiling.drift import drift_of
from penstock.profiling.facts import VERSION, facts_of
from penstock.profiling.findings import findings_of

_KIND = "penstock profile"
_IMAGES = ("head", "decode")


def profile(
    data: Any,
    *,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    images: str = "head",
    progress: Callable[[int, int], None] | None = None,
) -> Profile:
    """What is in a dataset, column by column: types, missing and distinct values, quantiles, distributions, outliers, frequent values, copies of rows, correlations.

    Reads the rows once, and columns of numbers a second time (for correlations, and where they have very many different ones), on all cores. Figures do not depend on the order of the rows, on threads, or on how files cut
    them: to the bit. Memory is bounded: at most some 30 MiB a column, and 300 MB for copies of rows.

    Exact: counts, missing values, least and greatest, mean, deviation (divided by n); distinct values up to 65,536 in a column (else to about 1 in 256, by the smallest hashes, and
    `"exact": false` says so); quantiles, unless a million numbers lie near them (then to 1 part in a million of each number); copies of rows up to 4,194,304 different ones (else by a part of
    these); correlations to 2**-38 of a column's range. Values that come often are found where there are too many to count each, and those that are told have their exact counts.

    Args:
        data: a dataset. Nulls are counted, whatever `nulls=` says that batches have in their place.
        label: the column whose classes are compared. Default: none.
        columns: names of the columns to look at. Default: all.
        images: "head", the default, reads the header of each image; "decode" decodes them all.
        progress: a function that is called with the rows read so far, and those of both passes.

    Returns:
        A `Profile`.

    Raises:
        PlanError: for what is no dataset, columns that are not there, and a label that has no classes.
        DataError: for a row that is bad.

    Example:
        people = ps.from_arrays({"age": np.array([31.0, np.nan, 47.0]), "city": ["Rome", "Oslo", "Rome"]})
        found = ps.profile(people)
        found["age"]["missing"] == 1
        found["city"]["values"]["most_frequent"] == [["Rome", 2], ["Oslo", 1]]
    """
    _check(data, images, progress)
    blocks = blocks_of(data, columns, label)
    done = 0

    def note(rows: int) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(min(done, 2 * blocks.rows), 2 * blocks.rows)

    found = facts_of(
        blocks.fields,
        blocks,
        label=label,
        decodes=images == "decode",
        digest=blocks.digest,
        classes=data.classes if label == "label" else (),
        progress=note,
    )
    if progress is not None and blocks.rows:
        progress(2 * blocks.rows, 2 * blocks.rows)
    return Profile(found)


def _check(data: Any, images: str, progress: Any) -> None:
    from penstock.dataset import Dataset

    if not isinstance(data, Dataset):
        raise PlanError(
            f"profile({type(data).__name__}): takes a dataset; open one with penstock.read or penstock.from_arrays"
        )
    if images not in _IMAGES:
        raise PlanError(f"profile: images={quoted(images)}; pass 'head' or 'decode'")
    check_progress("profile", progress)


class _Shown:
    """What shows plain values: in terminals, notebooks, pages and files."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts

    def _text(self, width: int | None) -> str:
        raise NotImplementedError

    def _parts(self) -> Iterable[str]:
        raise NotImplementedError

    def show(self) -> None:
        """Prints it as tables.

        Example:
            ps.profile(data).show()
        """
        print(self._text(None), end="")

    def __repr__(self) -> str:
        return self._text(140)

    def _repr_html_(self) -> str:
        return "\n".join(self._parts())

    def html(self, path: str | PathLike[str]) -> None:
        """Writes one page that needs nothing else: no script, no picture from elsewhere. At most 100 KB, and 5 KB a column.

        Args:
            path: of the file, which is replaced as a whole.

        Raises:
            PlanError: where it cannot be written.

        Example:
            ps.profile(data).html("profile.html")
        """
        from penstock.observe.page import page_of

        place = Path(path_of("html", path))
        write_whole(place, page_of(place.stem, self._parts()).encode(errors="replace"))

    def to_json(self) -> str:
        """All figures, as JSON; the same bytes for the same rows.

        Returns:
            The text.

        Example:
            import json

            json.loads(ps.profile(data).to_json())["rows"] == 10
        """
        return json.dumps(self.facts, ensure_ascii=True, allow_nan=False, indent=1)


class Profile(_Shown):
    """What is in a dataset: see `profile`.

    Args:
        facts: everything, as plain values: what `profile` found.

    Attributes:
        facts: everything, as plain values.
        rows: how many rows were read.
        columns: the facts of each column, by name; `profile["age"]` is one of them.
        findings: what stands out, each with its "column" and what it "says".

    Example:
        found = ps.profile(ps.from_arrays({"x": [1, 2, 3, 4]}))
        found["x"]["numbers"]["quantiles"]["0.5"] == 2.5
        found["x"]["distinct"] == {"count": 4, "exact": True}
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(facts)
        self.rows: int = facts["rows"]
        self.columns: Mapping[str, Any] = facts["columns"]
        self.findings = findings_of(facts)

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise PlanError(
                f"profile: no column {quoted(name)}; there are {', '.join(self.columns)}{did_you_mean(name, self.columns)}"
            )
        return self.columns[name]

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it as JSON, for `Profile.load`.

        Args:
            path: of a file, which is replaced as a whole.

        Raises:
            PlanError: where it cannot be written.

        Example:
            ps.profile(data).save("profile.json")
        """
        said = {"kind": _KIND, "facts": self.facts}
        write_whole(Path(path_of("save", path)), json.dumps(said, allow_nan=False, indent=1).encode())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Profile:
        """A profile that `save` wrote.

        Args:
            path: of the file.

        Returns:
            The `Profile`.

        Raises:
            SourceError: for a file that is not there.
            DataError: for a file that holds no profile.

        Example:
            ps.profile(data).save("before.json")
            ps.Profile.load("before.json").rows == 10
        """
        place = Path(path_of("load", path))
        try:
            said = json.loads(place.read_bytes())
        except FileNotFoundError:
            raise SourceError(f"load: {place}: there is no such file; write one with profile.save(path)") from None
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"load: {place}: no JSON ({error}); write it anew with profile.save(path)") from None
        if not isinstance(said, dict) or said.get("kind") != _KIND or not isinstance(said.get("facts"), dict):
            raise DataError(f"load: {place}: holds no profile; pass a file that profile.save(path) wrote")
        if said["facts"].get("version") != VERSION:
            raise DataError(
                f"load: {place}: version {quoted(said['facts'].get('version'))}, and this Penstock reads {VERSION}; make the profile anew"
            )
        try:
            found = cls(said["facts"])
            repr(found), found._repr_html_()
        except Exception as error:  # whatever a file that was changed makes of the figures
            raise DataError(
                f"load: {place}: damaged ({type(error).__name__}: {error}); write it anew with profile.save(path)"
            ) from None
        return found

    def compare(self, other: Profile | Any) -> Drift:
        """How far another dataset has drifted from this one: column by column, in numbers and words.

        PSI, the population stability index, is measured on this one's deciles, and on categories: below 0.1 it is called stable, up to 0.25 moderate drift, above that strong drift. The
        Kolmogorov-Smirnov statistic is the greatest distance of two distributions; the Jensen-Shannon distance (base 2) is 0 for equal ones and 1 for those that have nothing in common.

        Args:
            other: a `Profile`, or a dataset, of which one is made.

        Returns:
            A `Drift`.

        Raises:
            PlanError: for what is neither.

        Example:
            drift = ps.profile(data).compare(data)
            drift["x"]["says"] == "stable"
            drift.is_stable == True
        """
        theirs = other if isinstance(other, Profile) else profile(other)
        return Drift(drift_of(self.facts, theirs.facts))

    def recipe(self) -> str:
        """A plan for cleaning and encoding the columns, as Python code that runs, with a reason in each line: read it, change it, paste it.

        Returns:
            The code. It has the name `recipe` for a `penstock.table.Recipe`.

        Example:
            code = ps.profile(data).recipe()
            names = {}
            exec(code, names)
            recipe = names["recipe"].fit(data)
        """
        from penstock.profiling.plan import recipe_of

        return recipe_of(self.facts)

    def _text(self, width: int | None) -> str:
        from penstock.profiling.text import profile_text

        return profile_text(self.facts, self.findings, width)

    def _parts(self) -> Iterable[str]:
        from penstock.profiling.page import profile_parts

        return profile_parts(self.facts, self.findings)


class Drift(_Shown):
    """How far a dataset has drifted from another one: see `Profile.compare`.

    Args:
        facts: everything, as plain values: what `Profile.compare` found.

    Attributes:
        facts: everything, as plain values.
        columns: the facts of each column, by name; `drift["age"]` is one of them.
        is_stable: whether no column drifted, came or went.

    Example:
        before, after = ps.from_arrays({"city": ["a", "b"]}), ps.from_arrays({"city": ["a", "c"]})
        drift = ps.profile(before).compare(after)
        drift["city"]["new"]["first"] == ["c"]
        drift.is_stable == False
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(facts)
        self.columns: Mapping[str, Any] = facts["columns"]
        self.is_stable = all(column["level"] == "stable" for column in self.columns.values())

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise PlanError(
                f"compare: no column {quoted(name)}; there are {', '.join(self.columns)}{did_you_mean(name, self.columns)}"
            )
        return self.columns[name]

    def _text(self, width: int | None) -> str:
        from penstock.profiling.text import drift_text

        return drift_text(self.facts, width)

    def _parts(self) -> Iterable[str]:
        from penstock.profiling.drift_page import drift_parts

        return drift_parts(self.facts)
