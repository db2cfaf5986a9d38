"""Tests of metrics that are pooled over sites."""
