"""The outside world: processes, brokers, files, displays, simulation."""
