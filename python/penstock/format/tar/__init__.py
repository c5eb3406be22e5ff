"""WebDataset tar archives; keys of `.json` members become columns."""
