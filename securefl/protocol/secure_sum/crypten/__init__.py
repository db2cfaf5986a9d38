"""The CrypTen secure sum, and validation of updates under MPC before they count."""
