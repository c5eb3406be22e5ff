"""MosaicML's MDS shards."""
