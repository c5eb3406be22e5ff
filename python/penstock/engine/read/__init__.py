"""Reading: from the order's rows to records, blocks or arrays.

`records` (single records, or blocks of them), `blocks` (tables of sources whose rows lie in columns), `parse` (records to columns), `upcoming` (when data is
needed next), `ahead` (tells the cache, and prefetches into it).
"""
