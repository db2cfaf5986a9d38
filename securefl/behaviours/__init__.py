"""Attacks and faults, wrapped round honest machines at four seams: data, update, encoded, effects."""
