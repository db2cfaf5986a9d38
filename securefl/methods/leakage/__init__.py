"""The leakage ledger: what opened sums determine together, exactly (docs/leakage.md)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
