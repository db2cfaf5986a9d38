"""What everything may use: names, errors, arrays, entropy, cryptography. Knows nothing of learning."""
