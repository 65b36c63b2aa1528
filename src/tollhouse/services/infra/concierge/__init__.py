"""The concierge: questions in plain words, answered from the graph."""
