"""From a plan to stages, by one table of functions: `nodes.STAGES` says what becomes of each kind of node.

A function gets a node, what its inputs gave (`branch`) and what all share (`context`), and gives stages and what comes out of them. `rows`, `columns`, `transform`
and `functions` have them; `reading` makes the first stages, which read all sources. `stages` puts a plan together, `lanes` what runs below a lane stage; `plan` adds what
delivers, and `lowered` is what comes out.

`chains` lets ops below and above a cache draw as if they were one chain, `cache_places` says where caches may stand, `layouts` which pixels come channels first, `on_device` what a device does.
"""

from penstock.lower.plan import lower as lower
