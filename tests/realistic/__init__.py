"""Federations of a realistic size: processes, a broker, verification and restarts (`make realistic`)."""
