"""What ops learn of columns: each statistic adds up over blocks and parts of the data, in any order, to the same bits.

`protocol` says what one is; `moments` sums exactly, `quantiles` finds order statistics in two passes or more, `counts` has the categories, `targets` sums a target by category and fold, and `known_rows` says which rows were met, and in which fold each is.
"""
