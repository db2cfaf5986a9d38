"""Pairwise masking: one secure sum at the client and at the server."""
