"""Credentials: where they come from (`aws_profile`, `credentials`), and who may have them (`own_hosts`, `signed_urls`, and `relay` behind a proxy)."""
