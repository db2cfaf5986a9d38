"""State machine of a party."""
