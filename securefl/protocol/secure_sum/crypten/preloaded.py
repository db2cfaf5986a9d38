"""Import of CrypTen for the fork server of a run."""

from securefl.protocol.secure_sum.crypten.library import load

load()
