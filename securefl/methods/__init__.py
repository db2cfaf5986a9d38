"""The mathematics, on numpy arrays and integers: no messages, no torch, no files."""
