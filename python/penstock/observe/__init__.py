"""Telling: figures, the verdict, reports."""
