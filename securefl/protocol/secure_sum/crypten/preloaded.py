"""Imports CrypTen: for the fork server of a run whose parties all need it."""

from securefl.protocol.secure_sum.crypten.library import load

load()
