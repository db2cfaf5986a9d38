"""Pre-aggregation before a rule: one file for each type."""
