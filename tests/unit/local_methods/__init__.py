"""Tests of local methods."""
