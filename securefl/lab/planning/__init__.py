"""Parameters of a run that meet demands, and their costs (docs/plan.md)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
