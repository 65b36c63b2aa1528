"""The catalogue as the Universal Commerce Protocol asks for it: https://ucp.dev, capability catalog."""
