"""Reports of machines for metrics, progress and transcripts, each with its line and notes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
