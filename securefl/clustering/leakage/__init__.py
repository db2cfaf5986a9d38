"""The leakage ledger: what opened sums determine together, exactly (docs/leakage.md)."""
