"""Soaks: a federation of processes over very many rounds, and what grows with their number."""
