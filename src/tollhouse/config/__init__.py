"""Settings: where they come from, what they are and what they default to."""
