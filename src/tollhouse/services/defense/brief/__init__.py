"""The defense brief: what is bought, what is happening, and where the two drift apart."""
