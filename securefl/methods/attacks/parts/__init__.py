"""Attacks on data and updates: one file for each ``behaviours.kind``."""
