"""Training for the measures. These modules import torch and securefl; the list of measures does not."""
