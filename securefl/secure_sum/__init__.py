"""Secure sums: one port, and the kinds of sum behind it."""
