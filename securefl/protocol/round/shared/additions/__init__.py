"""Values and words that features add to a round."""
