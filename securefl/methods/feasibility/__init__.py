"""Checks between the tables of a scenario, and the numbers that follow from a feasible one.

A check raises a ConfigError with the field to change, the reason and the remedy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
