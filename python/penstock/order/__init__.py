"""Order: which sample comes when; numbers in, numbers out."""
