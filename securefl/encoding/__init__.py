"""From real updates to ring elements and back."""
