"""Hand-over of a run's model: its weights, a model card and digests in one folder."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
