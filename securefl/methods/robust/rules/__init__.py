"""The rules on cluster means: one file each, found by its name in ``aggregation.rule``."""
