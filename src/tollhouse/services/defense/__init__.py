"""The defense intelligence feed: events, and who may read them."""
