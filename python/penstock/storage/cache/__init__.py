"""The cache of remote ranges on the local disk.

`storage` (a storage behind the cache), `cache` (hits, misses, evictions), `index` (the `journal` loaded into `extents`), `packs` (files of many pieces), `pieces` (compared
with their checksums at every read), `files` (positions as numbers), `locks` (between processes), `policy` (what is evicted), `simulated` (a forecast of its contents), `folder`
(which cache).
"""
