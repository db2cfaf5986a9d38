"""Before a run: which parameters keep what is demanded, and at which price (docs/plan.md)."""
