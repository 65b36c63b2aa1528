"""Middleware: a toll inside an ASGI application, on the routes that have terms."""
