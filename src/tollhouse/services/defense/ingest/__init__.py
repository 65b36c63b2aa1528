"""How the world's reports become events: download, parse, collapse, classify, score."""
