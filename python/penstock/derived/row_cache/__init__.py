"""Rows of columns by their numbers, written once and read in any order: what `Dataset.cache` keeps, in memory or in a file.

`columns` says how each column is held, `spaces` where its bytes lie, `table` which rows are there and where; `rows` joins these, `disk` opens a file of them
and `listing` is for the command line.
"""
