"""Checks of opened sums against the noise that was agreed plus a signal of bounded norm (step 12).

They say something about a *sum*: that its members, together, did not follow the plan. What each one can and
cannot see is measured in ``docs/results/checks.md``; ``docs/checks.md`` has the formulas.
"""
