"""Local methods: FedProx, SCAFFOLD; a file each in ``parts``, and what applies them in a training loop."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
