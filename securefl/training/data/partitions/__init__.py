"""Partitions: each is one file, which holds its table and its function; the file's name is its ``type``."""
