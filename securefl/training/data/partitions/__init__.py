"""Partitions: one file for each ``type``."""
