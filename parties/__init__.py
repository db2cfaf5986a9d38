"""Process programs: `python -m securefl.cli.party`, `.server`, `.observer`. No protocol code lives here."""
