"""Sums without any protection, for simulations and tests."""
