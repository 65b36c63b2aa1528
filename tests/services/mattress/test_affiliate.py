"""Affiliate links, and the files that say how they are built."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tollhouse.services.mattress.retailers import OPERATORS_FILE, AffiliateProgramme, RetailersError, load_retailers

PAGE = "https://shop.example/products/a b?size=queen&x=1#top"


@pytest.mark.parametrize(
    ("programme", "host", "path", "parameter"),
    [
        (AffiliateProgramme("awin", publisher="1", merchant="2"), "www.awin1.com", "/cread.php", "ued"),
        (AffiliateProgramme("rakuten", publisher="1", merchant="2"), "click.linksynergy.com", "/deeplink", "murl"),
        (AffiliateProgramme("commission-factory", publisher="1", merchant="2"), "t.cfjump.com", "/1/t/2", "Url"),
        (AffiliateProgramme("impact", publisher="1", merchant="2", campaign="3", host="shop.pxf.example"),
         "shop.pxf.example",
         "/c/1/3/2", "u"),
    ],
)  # fmt: skip
def test_network_leads_to_the_whole_page(programme, host, path, parameter):
    link = urlsplit(programme.link(PAGE))
    assert (link.scheme, link.hostname, link.path, link.fragment) == ("https", host, path, "")
    assert parse_qs(link.query)[parameter] == [PAGE]


def test_awin_names_merchant_and_publisher():
    query = parse_qs(urlsplit(AffiliateProgramme("awin", publisher="11", merchant="22").link(PAGE)).query)
    assert (query["awinmid"], query["awinaffid"]) == (["22"], ["11"])


def test_tag_joins_the_query_once_and_before_the_fragment():
    programme = AffiliateProgramme("tag", parameter="ref", publisher="me & you")
    once = programme.link("https://shop.example/p?size=queen&ref=other#top")
    assert once == "https://shop.example/p?size=queen&ref=me+%26+you#top"
    assert programme.link(once) == once


def test_page_without_a_programme_is_left_alone():
    assert AffiliateProgramme().link(PAGE) == PAGE


@pytest.mark.parametrize("network", ["awin", "impact", "commission-factory", "rakuten", "tag"])
def test_incomplete_affiliate_programme_is_rejected(network):
    with pytest.raises(ValueError, match="requires"):
        AffiliateProgramme(network)


def test_configured_retailers_override_the_demonstration(tmp_path):
    (tmp_path / OPERATORS_FILE).write_text(
        '[[retailer]]\nid = "coastal-kip"\nname = "Mine"\ndomains = ["mine.example"]\n'
        'affiliate = { network = "tag", publisher = "me" }\n'
    )
    retailers = load_retailers(tmp_path)
    assert retailers.get("coastal-kip").display_name == "Mine"
    assert retailers.get("coastal-kip").affiliate_domains == ["mine.example"]
    assert retailers.get("magpie-home").display_name == "Magpie Home"


def test_undeclared_retailer_is_named_by_its_id():
    retailer = load_retailers().get("corner-shop")
    assert (retailer.display_name, retailer.affiliate.link(PAGE)) == ("Corner Shop", PAGE)


@pytest.mark.parametrize("identity", ["", "Shop", "a.b", "x" * 41, "-a", "ä"])
def test_malformed_retailer_id_is_rejected(identity):
    with pytest.raises(ValueError, match="is invalid"):
        load_retailers().get(identity)


@pytest.mark.parametrize(
    "text", ["[[retailer]]\n", "x = 1", "[[retailer]\n", '[[retailer]]\nid = "a"\ncolour = "red"\n']
)
def test_malformed_file_is_refused_by_name(tmp_path, text):
    (tmp_path / OPERATORS_FILE).write_text(text)
    with pytest.raises(RetailersError, match=OPERATORS_FILE):
        load_retailers(tmp_path)
