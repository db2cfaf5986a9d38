"""Attacks and faults at four seams of honest machines: data, update, encoded, effects."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
