"""One file a kind of store: `object` (S3, GCS, Azure, HTTP by obstore), `hdfs`, `arrow` (pyarrow.fs), `fsspec`. Each lists files and makes one request.

Listing: `listing`, `version` and `file_version` (what tells versions of a file apart), `http` and `odd_answer` (answers that obstore does not read). Credentials:
`aws_profile`, `credentials`, `own_hosts`, `relay` (they stay behind a proxy, too). Errors in our words: `errors`, `file_errors`. `forked`: clients whose threads a
fork has left behind.
"""
