"""The chain on which people pay: how a node is asked, what it may answer, and a chain of one's own."""
