"""The way in: one sequence for every operation of every service."""
