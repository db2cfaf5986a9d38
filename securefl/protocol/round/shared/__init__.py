"""What server, party and simulation compute alike in a round."""
