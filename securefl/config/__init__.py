"""Scenarios: their structs, the limits between fields, loading and overriding."""
