"""Requests to a store: planned, paced, retried, and made by the native client or the store's own.

`plan` (ranges to requests), `pace` (how many at once), `scheduler` with its `queue` (retries, hedges of slow requests), `transfer` (one caller's
requests), `retry`, `native_client` (first tries over HTTP, for the URLs of `signed_urls`). `remote` makes a storage of these.
"""
