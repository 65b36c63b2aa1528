"""HTTP/1.1 clients: of the proxy, of the webhooks, and of feeds."""
