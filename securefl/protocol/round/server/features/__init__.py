"""Round features of the server: one module each (docs/adr/0065)."""
