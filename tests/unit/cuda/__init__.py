"""Tests of the kit for a GPU machine without a network."""
