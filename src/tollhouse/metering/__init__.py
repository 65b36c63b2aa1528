"""How much a caller may use: plans, windows, and what is left of them."""
