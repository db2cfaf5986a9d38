"""Data, models, local training and evaluation."""
