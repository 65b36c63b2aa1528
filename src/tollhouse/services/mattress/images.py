"""SVG pictures of products, drawn from their attributes."""

from hashlib import blake2b

from tollhouse.catalogue.items import Item
from tollhouse.services.mattress.exports import xml_text

SVG = "image/svg+xml"

_WIDTHS = {"Single": 92, "King Single": 107, "Double": 138, "Queen": 153, "King": 183, "Super King": 203}
# Cover colours by material.
_COVERS = {
    "hybrid": "#7d9bb8",
    "latex": "#c9b27c",
    "memory foam": "#a79bc4",
    "pocket spring": "#88a88c",
    "innerspring": "#a3a9ad",
    "foam": "#d0a99b",
}
_PLAIN = "#b5b5b5"


def draw_product(item: Item) -> bytes:
    """An SVG of 480 by 360: width by size, number of layers by firmness, colour by material."""
    width = round(_WIDTHS.get(item.get("size", ""), 138) * 1.9)
    start = (480 - width) // 2
    layers = 2 + item.get("firmness", 5) // 3
    height = 18
    top = 220 - layers * height
    cover = _COVERS.get(item.get("material", ""), _PLAIN)
    rows = "".join(
        f'<rect x="{start}" y="{top + index * height}" width="{width}" height="{height}" rx="7" fill="{cover}" '
        f'fill-opacity="{1 - index * 0.14:.2f}" stroke="#3d4650" stroke-width="1.5"/>'
        for index in range(layers)
    )
    title = xml_text(item["title"])
    # The hue of the background, by brand.
    hue = int.from_bytes(blake2b(str(item.get("brand", "")).encode(), digest_size=2).digest()) % 360
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 360" width="480" height="360" role="img" '
        f'aria-label="{title}"><rect width="480" height="360" fill="hsl({hue},22%,95%)"/>{rows}'
        f"{_line(268, 17, item.get('brand', ''))}{_line(292, 14, item.get('size', ''))}"
        f"{_line(314, 14, item.get('material', ''))}</svg>"
    ).encode()


def _line(y: int, size: int, text: str) -> str:
    return (
        f'<text x="240" y="{y}" text-anchor="middle" font-family="sans-serif" font-size="{size}" '
        f'fill="#3d4650">{xml_text(text)}</text>'
    )
