"""Papers' figures, audits, attacks on privacy, plans, measurements."""
