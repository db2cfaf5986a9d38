"""Regression nets: everything that the machines of small seeded runs do, effect by effect."""
