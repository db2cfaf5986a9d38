"""Names, errors, arrays, entropy and cryptography. No machine learning."""
