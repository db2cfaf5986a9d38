"""Noise for differential privacy: integer laws, norm-bounded rounding, shares, and their cost in delta."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
