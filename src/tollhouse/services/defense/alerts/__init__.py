"""Kill criteria: named rules over the live data that tell an endpoint when they come true."""
