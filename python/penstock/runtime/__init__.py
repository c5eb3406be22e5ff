"""Threads, memory and channels: runs a list of stages; knows work and items, no node and no format.

`stage` says what a stage and an item are. `run` runs stages, with the failure contract at its top, and alone measures; a `crew` is the threads of one stage, `channel`
leads from one to the next. `budget` admits items, and blocks until there is room (`free_memory`, `item_bytes`); `slots` lends memory. `tuner` measures, `controller` and `tune` decide.
`watchdog` tells what stages do (`thread_notes`) where nothing gets on.
"""
