"""A plan at work for one rank: `Loader`.

`options` is what it was told, and `rank` what follows from it: the `share` of the rows, the position, and an item source. `item_source` says what that
does: `here` runs stages in this process, `in_child` has them run in a child process (isolation="process"), whose side is `child`. `passes` cuts
items into the batches of an epoch, `state` says where that stands, `reports` how it goes, and `single_steps` makes the batch of any step.
"""

from penstock.loader.loader import Loader

__all__ = ["Loader"]
