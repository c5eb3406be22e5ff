"""Reading: from the order's rows to records, blocks or arrays; what is needed next, and read-ahead."""
