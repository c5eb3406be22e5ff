"""The engine: makes what the plan describes happen; knows nothing of formats.

`lower` turns a plan into stages (`lowered`) and is the only file that knows all kinds; `ordering` gives the order that the plan asks for. `read/` has the reading
stages, `apply` ops and functions, `deliver_columns` the last one, `jpeg_index` the index of JPEG files. `run` runs stages, with the failure contract at its top, and alone measures;
`watchdog` tells what they do (`doing`) where nothing gets on;
`channel` and `budget` alone block (`admit`, `free_memory`, `item_bytes`); `slots` lends memory, `tune` finds how much to prefetch. Without a pipeline: `single` (samples
one by one), `decode_check` (all bad images), `simulate` (what a training would request).
"""
