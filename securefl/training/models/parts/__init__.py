"""Models: one file for each ``type``. Tables load no torch, so ``build`` imports it."""
