"""What verbs have in common that choose rows of their input and change no column."""

from __future__ import annotations


class RowChoice:
    """A node that chooses rows of its input."""

    def rows(self, below: int) -> int:
        """How many rows are left of so many."""
        raise NotImplementedError

    def none_left(self, below: int) -> str:
        """What to say where none is."""
        raise NotImplementedError
