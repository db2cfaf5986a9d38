"""Verifiable random clusters."""
