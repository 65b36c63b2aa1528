"""USDC deposits: confirmed on the chain, credited once, and monitored for reorganisations."""
