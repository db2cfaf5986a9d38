"""Attacks and faults, wrapped round honest code at four seams."""
