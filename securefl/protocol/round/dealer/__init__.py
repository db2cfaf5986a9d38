"""State machine of the dealer."""
