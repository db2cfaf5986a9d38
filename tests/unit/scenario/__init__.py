"""Tests of securefl.scenario."""
