"""Programs of the processes: ``python -m parties.server``, ``.client``, ``.dealer``, ``.observer``."""
