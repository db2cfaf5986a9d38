"""Partitions, one file each with its table and its function; the file's name is its ``type``."""
