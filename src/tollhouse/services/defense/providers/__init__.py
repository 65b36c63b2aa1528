"""Who counts the dead: providers of researched fatality figures, and how their records meet our events."""
