"""Attacks on privacy as statistics: pure functions on arrays. Training and inversion lie in other layers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
