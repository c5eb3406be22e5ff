"""One file a kind of store: `object` (S3, GCS, Azure, HTTP by obstore), `hdfs`, `arrow` (pyarrow.fs), `fsspec`. Each lists files and makes one request.

Listing: `listing`, `version` and `file_version` (identify versions of a file); `http` (responses that obstore does not read). Credentials: `auth/`. Error messages: `errors`, `file_errors`.
"""
