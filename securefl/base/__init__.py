"""Foundations of all layers: names, errors, arrays, entropy, cryptography. No machine learning."""
