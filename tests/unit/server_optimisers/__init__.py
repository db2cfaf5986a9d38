"""Tests of the server's step on the aggregated update."""
