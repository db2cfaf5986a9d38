"""Experiments that put a run's privacy to the test, with ground truth; they train, and so take a while."""
