"""Records in files: their index, lines, and the columns that native parsers give."""
