"""The defense brief: procurement, live events and capability gaps."""
