"""The cache of remote ranges on the local disk.

`storage` (a storage behind the cache), `cache` (what is there, fetched or evicted), `index` (`journal` taken into `extents`), `packs` (files of many pieces), `pieces` (compared
with their checksums at every read), `files` (places as numbers), `locks` (between processes), `policy` (what is evicted), `simulated` (what it would hold), `folder`
(which cache).
"""
