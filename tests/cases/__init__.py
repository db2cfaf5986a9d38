"""Inputs that once failed. Names in them follow the program; what happens in them does not change."""
