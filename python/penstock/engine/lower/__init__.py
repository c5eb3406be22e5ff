"""From a plan to stages: `nodes` has what becomes of each node, `reading` what reads the sources, `lanes` what runs below lane stages."""

from penstock.engine.lower.plan import lower as lower
