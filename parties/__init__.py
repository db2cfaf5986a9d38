"""Process programs: `python -m parties.client`, `.server`, `.observer`. No protocol code lives here."""
