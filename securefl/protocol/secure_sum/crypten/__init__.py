"""CrypTen secure sum, and its use by validated sums."""
