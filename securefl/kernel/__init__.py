"""The sans-IO contract: events, effects, machines."""
