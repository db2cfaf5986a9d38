"""Training on a GPU: checks and measurements in one command, and the kit for a machine without a network."""
