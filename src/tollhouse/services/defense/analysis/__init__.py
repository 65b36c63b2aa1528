"""Analysis: counts of stored events, grouped and filtered by the caller."""
