"""Sums of updates that are checked as shares before the sum opens (ADR 0024)."""
