"""Importers: product feeds of every supported format, read into rows."""
