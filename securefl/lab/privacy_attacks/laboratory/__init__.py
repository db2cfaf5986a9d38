"""Experiments on a run's privacy with ground truth. They train, and so take minutes."""
