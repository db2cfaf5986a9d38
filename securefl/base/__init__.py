"""Foundations for every layer: names, errors, arrays, entropy, cryptography. No learning in here."""
