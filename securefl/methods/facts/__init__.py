"""Sentences on a scenario for the header of its run, by scenario table."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
