"""Machines with kits, as the tests of provisioning make them."""

from tests.unit.provision.conftest import _accepted, _signed, kits

__all__ = ["_accepted", "_signed", "kits"]
