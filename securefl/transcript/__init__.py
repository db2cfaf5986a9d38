"""Hash-chained records of what each vantage point saw."""
