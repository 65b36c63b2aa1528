"""Who is asking: keys and addresses."""
