"""The global round, at the server and at a party."""
