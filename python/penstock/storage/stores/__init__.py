"""One file a kind of store: `object` (S3, GCS, Azure, HTTP by obstore), `hdfs`, `arrow` (pyarrow.fs), `fsspec`. Each lists files and makes one request.

Listing: `listing`, `version` and `file_version` (identify versions of a file), `http` and `odd_answer` (responses that obstore does not read). Credentials:
`aws_profile`, `credentials`, `own_hosts`, `relay` (which works behind a proxy too). Error messages: `errors`, `file_errors`. `forked`: clients whose threads are
missing after a fork.
"""
