"""Keys, certificates and configuration of all machines of a federation, each key made on its own machine."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
