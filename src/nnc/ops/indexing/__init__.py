"""Indexing, sorting and searching."""
