"""Tests of securefl.config."""
