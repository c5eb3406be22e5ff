"""From a plan to stages: `nodes` has what becomes of each node, `reading` what reads the sources, `lanes` what runs below lane stages; `lowered` is what comes out.

`chains` lets ops below and above a cache draw as if they were one chain, `cache_places` says where caches may stand, `layouts` which pixels come channels first, `on_device` what a device does.
"""

from penstock.lower.plan import lower as lower
