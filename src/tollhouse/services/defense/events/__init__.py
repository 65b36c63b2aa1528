"""Events: the events feed, its filters and its formats."""
