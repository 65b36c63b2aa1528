"""Which articles tell the same story: words, likeness, the clusterer, and what a story says of itself."""
