"""Kinds of data of one's own: each is one file, ``<scheme>_files.py``, with a function ``source``."""
