"""Whole runs on one machine, live or simulated, without a command line."""
