"""Checks of opened sums against the agreed noise plus a signal of bounded norm (step 12).

A rejected *sum* shows that its members, together, did not follow the plan. ``docs/checks.md`` has formulas
and power.
"""
