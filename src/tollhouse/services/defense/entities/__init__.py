"""Named entities: extract people, organizations, locations and platforms from text, and merge their names."""
