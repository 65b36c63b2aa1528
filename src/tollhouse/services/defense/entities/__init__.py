"""Who and what the news is about: people, organisations, places and platforms, found in text and merged."""
