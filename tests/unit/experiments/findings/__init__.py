"""Phrases with numbers in the findings of experiment files, by paper."""
