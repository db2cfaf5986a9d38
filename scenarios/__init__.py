"""Scenario files (TOML) and the scripts that run and sweep them."""
