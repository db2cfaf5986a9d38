"""Federated learning with secure sums, robust rules and differential privacy, over networks that fail.

The names here are the public API (docs/python.md); all else may change without notice. They are imported
when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
