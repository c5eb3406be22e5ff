"""Arrays on disk: plain rows that are mapped or read by arithmetic, and arrays that a library reads by slices."""
