"""Everything that needs torch: data, models, local training, evaluation."""
