"""Rules on cluster means: one file for each ``aggregation.rule``."""
