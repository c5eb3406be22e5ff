"""Files as the rest sees them: `shards`, `byte_ranges`, this user's caches, unfinished files (`scratch`), long reads with `progress`."""
