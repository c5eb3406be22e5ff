"""`cache()` at work: rows that are kept go into an item beside those that are made, and the cache's stage joins both.

`key` names what is kept, `caches` opens the caches of a plan; `find_cached` finds an item's rows in them, `reader` takes these out, and `store` keeps the others.
"""
