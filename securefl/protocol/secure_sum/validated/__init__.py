"""Updates that are checked, still shared, before their sum is opened (ADR 0024)."""
