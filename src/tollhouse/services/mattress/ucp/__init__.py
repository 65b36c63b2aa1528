"""The catalogue over the Universal Commerce Protocol (https://ucp.dev, capability catalog)."""
