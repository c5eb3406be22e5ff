"""What needs a plan, and runs little or nothing: `explain`, `simulate`, a few rows to look at (`few_rows`), all bad images (`decode_check`), building indexes (`indexing`, `jpeg_index`)."""
