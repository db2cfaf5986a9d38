"""Training, and all else that needs torch: data, models, local training, evaluation."""
