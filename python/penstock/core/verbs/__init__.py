"""What verbs are given, as checked descriptions, since `plan`, `batch` and `order` do not know each other."""
