"""What to type where a package is missing."""

from __future__ import annotations


def pip_install(*packages: str) -> str:
    """The command that installs packages: pip_install("jax", "orbax-checkpoint") == "pip install jax orbax-checkpoint".

    By their own names and not as an extra of Penstock, which pip finds where an index has Penstock only.
    """
    return f"pip install {' '.join(packages)}"
