"""As much of schema.org's vocabulary as the export speaks."""

S = "https://schema.org/"
# What schema.org says of each type used here: its properties, those of the types above it included.
PROPERTIES = {
    "ItemList": {"name", "description", "itemListOrder", "numberOfItems", "itemListElement"},
    "ListItem": {"position", "item"},
    "Product": {"productID", "sku", "name", "description", "category", "brand", "material", "size", "image", "url",
                "keywords", "additionalProperty", "offers"},
    "Brand": {"name"},
    "SizeSpecification": {"name"},
    "Organization": {"name"},
    "PropertyValue": {"propertyID", "name", "value", "minValue", "maxValue"},
    "Offer": {"url", "price", "priceCurrency", "availability", "itemCondition", "seller", "priceSpecification"},
    "UnitPriceSpecification": {"price", "priceCurrency", "priceType"},
}  # fmt: skip


def graph():
    """The same in the form of schema.org's own file, as validators read it."""
    domains = {name: [kind for kind, names in PROPERTIES.items() if name in names] for kind in PROPERTIES
               for name in PROPERTIES[kind]}  # fmt: skip
    classes = [{"@id": f"schema:{kind}", "@type": "rdfs:Class"} for kind in PROPERTIES]
    properties = [
        {
            "@id": f"schema:{name}",
            "@type": "rdf:Property",
            "schema:domainIncludes": [{"@id": f"schema:{k}"} for k in kinds],
        }
        for name, kinds in domains.items()
    ]
    return {"@graph": [*classes, *properties]}
