"""Text as XML 1.0 may hold it."""

import re
from xml.sax.saxutils import escape

# What no XML document may hold, however it is written (XML 1.0, section 2.2).
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """Escaped for an element's content or an attribute in double quotes; characters XML cannot hold are left out."""
    return escape(_FORBIDDEN.sub("", text), {'"': "&quot;"})
