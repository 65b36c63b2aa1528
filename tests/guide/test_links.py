"""Every link of the documentation leads somewhere, in the repository and on the server alike."""

import re

from tests.guide.documents import PAGES, ROOT, headings, links, name_of
from tollhouse.console.markdown import slug
from tollhouse.errors import CODES

SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
# Pages of the server itself, which are no files: tests/guide/test_pages.py asks for them.
SERVED = re.compile(r"/(?!/)")


def anchors(path):
    return {slug(heading) for heading in headings(path)}


def relative_links():
    return [(page, link) for page in PAGES for link in links(page) if not SCHEME.match(link) and not SERVED.match(link)]


def test_every_link_to_a_file_leads_to_one():
    checked = relative_links()
    assert len(checked) > 40
    dead = [f"{name_of(page)}: {link}" for page, link in checked if not (page.parent / link.partition("#")[0]).exists()]
    assert dead == []


def test_every_anchor_is_a_heading_of_its_page():
    checked = [(page, link) for page, link in relative_links() if "#" in link]
    assert checked
    for page, link in checked:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert anchor in anchors(target), f"{name_of(page)}: {link}"


def test_no_link_leaves_the_project_but_by_its_address():
    for page, link in relative_links():
        assert (page.parent / link.partition("#")[0]).resolve().is_relative_to(ROOT), f"{name_of(page)}: {link}"


def test_every_code_has_its_anchor_on_the_page_of_problems():
    assert set(CODES) <= anchors(ROOT / "docs" / "problems.md")
