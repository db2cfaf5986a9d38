"""The server's machine."""
