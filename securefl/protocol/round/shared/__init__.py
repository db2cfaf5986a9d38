"""Calculations of a round that server, party and simulation make alike."""
