"""Models, one file each; the file's name is its ``type``. Tables load no torch, so ``build`` imports it."""
