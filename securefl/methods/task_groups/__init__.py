"""Task groups: parties of different data distributions, and a model for each group (BR-IFCA)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
