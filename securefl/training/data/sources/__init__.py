"""Kinds of users' data: files ``<scheme>_files.py``, each with a function ``source``."""
