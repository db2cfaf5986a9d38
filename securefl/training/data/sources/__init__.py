"""Kinds of users' data: each is one file, ``<scheme>_files.py``, with a function ``source``."""
