"""Measures: each module here has ``MEASURES``, a tuple of :class:`tools.cuda.measures.measure.Measure`.

A module imports torch and securefl only inside the functions that measure: the list needs neither.
"""
