"""Tests of securefl.training."""
