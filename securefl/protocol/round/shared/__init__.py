"""Rules that the machines of server, party and dealer share."""
