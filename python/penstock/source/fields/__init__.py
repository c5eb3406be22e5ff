"""Records made of fields (RecordIO, MDS, LitData): how the bytes of each field become a column."""
