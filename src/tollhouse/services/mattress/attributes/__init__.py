"""What a mattress is like, read off its seller's words: size, firmness, cooling, sleep positions, material."""
