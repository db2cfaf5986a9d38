"""Data, models, local training, evaluation: all that needs torch."""
