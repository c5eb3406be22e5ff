"""Requests to a store: `plan` (ranges to requests), `pace` (how many at once), `scheduler` with its `queue` (retries, second requests for late ones), `transfer` (one
caller's requests), `retry`. First tries over HTTP go to the native client (`native_client`, for the URLs of `signed_urls`), the others to the store's own. `remote` makes a
storage of all that.
"""
