"""What runs: a file a stage, each a function from item to item.

`read/` (a reader for each way to reach rows), `cached/` (what `cache()` does), `transform` (ops), `call_function`, `merge` (concat, mix), `zip`, `pad`, `select`, `source_column`, `deliver_columns`; `lanes/` (what runs lane by
lane). `bad_rows` and `substitutes` stand around stages that may meet bad rows; a user's function is a `call`.
"""
