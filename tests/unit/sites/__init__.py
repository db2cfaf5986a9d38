"""Tests of sites: training of a user's own."""
