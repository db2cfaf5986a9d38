"""New projects: a folder with scenario, training code, test and README that runs at once."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
