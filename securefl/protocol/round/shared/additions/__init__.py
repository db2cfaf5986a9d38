"""Values and words that round features add to a round."""
