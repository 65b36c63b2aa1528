"""Questions in plain words about what the feeds hold."""
