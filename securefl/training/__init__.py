"""Training and everything else that needs torch: data, models, local training, evaluation."""
