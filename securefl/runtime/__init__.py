"""The world outside: processes, brokers, files, displays, simulation."""
