"""What random reclusterings reveal, over a range of settings: sweeps, their draws, their page."""
