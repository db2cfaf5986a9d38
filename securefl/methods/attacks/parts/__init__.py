"""Attacks on data and updates: one file each, found by its name in ``behaviours.kind``."""
