"""Attacks on privacy as statistics: pure functions on arrays. What trains or inverts lies in other layers."""
