"""Tables as services, defined by a TOML file instead of Python."""
