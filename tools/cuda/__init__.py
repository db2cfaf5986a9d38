"""Training on a GPU of a machine without a network: the kit of packages and data, and its rehearsal."""
