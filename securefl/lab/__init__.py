"""Experiments and analyses: papers' figures, audits, attacks on privacy, plans, measurements."""
