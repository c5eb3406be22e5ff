"""What a format gives to the engine: the protocol of a source, its manifest, and what several formats share."""
