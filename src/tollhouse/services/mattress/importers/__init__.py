"""Importers: what shops publish about their products, in any of nine formats, becomes rows for the catalogue."""
