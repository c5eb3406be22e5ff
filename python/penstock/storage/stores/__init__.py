"""One file a kind of store: object stores, HDFS, pyarrow.fs, fsspec; what is particular to their listings, credentials and errors."""
