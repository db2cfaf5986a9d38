"""The dealer's machine."""
