"""Audits of recorded runs: pure functions on what a run left behind, and their report (docs/audit.md)."""
