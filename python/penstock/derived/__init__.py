"""Files derived from the data and kept in the user's cache: downloads, decompressed shards, decoded parts, indexes."""
