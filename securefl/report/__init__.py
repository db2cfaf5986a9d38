"""What a run leaves behind for people and programs: metrics, progress, summary."""
