"""Files derived from the data in the user's cache: downloads, decompressed shards, decoded parts, indexes."""
