"""Aggregation rules on cluster means."""
