"""Pre-aggregation in front of a rule: one file each, found by its name."""
