"""Requests to a store: planned, paced, retried, and made by the native client or the store's own.

`plan` (ranges to requests), `pace` (how many at once), `scheduler` with its `queue` (who waits, retries, hedges of slow requests),
`transfer` (one caller's requests), `retry`. The scheduler's requests are made by a `transport`: `threads`, with the store's own client, or
`native`, for first tries over HTTP. `remote` makes a storage of these.
"""
