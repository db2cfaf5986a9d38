"""Experiments and looks back: papers' figures, audits, attacks on privacy, plans, measurements."""
