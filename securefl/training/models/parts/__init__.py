"""Models: each is one file, its name the ``type``. Tables load no torch, so ``build`` imports it."""
