"""Measurements of speed and size: `securefl bench`."""
