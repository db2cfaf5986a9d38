"""Training of a user's own: sites that hold data and code, and what travels between them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
