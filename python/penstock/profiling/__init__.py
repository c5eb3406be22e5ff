"""Profiles of datasets: `ps.profile(data)` says what is in each column, `compare` what has changed, `recipe` what to do about it.

`profiles` is what users hold; `gathering` makes two passes over the rows, in which each column's file gathers what its type has (`numbers`, `categories`, `lengths`, `images`, `rows`,
`correlations`), all of it whole numbers that add up to the same figures in any order; `facts` are plain values, which `findings` puts into words, `drift` compares, `plan` makes a recipe of, and `text`,
`page` and `drift_page` show.
"""

from penstock.profiling.profiles import Drift, Profile, profile

__all__ = ["Drift", "Profile", "profile"]
