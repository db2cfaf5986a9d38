"""securefl: federated learning with cluster-local secure sums, robust rules and honest networks' failures."""

__version__ = "0.1.0"
