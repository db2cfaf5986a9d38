"""State machine of the server."""
