"""Families of tables and figures: one file with axes for many numbered ones (docs/reproduce.md)."""
