"""Tests of securefl.learning."""
