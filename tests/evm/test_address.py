import pytest
from eth_utils import to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.evm import Address, checksummed, parse_address

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"

# Every form of case that EIP-55 shows.
FROM_THE_STANDARD = [
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
]


@pytest.mark.parametrize("text", FROM_THE_STANDARD)
def test_address_is_shown_with_its_checksum(text):
    expected = Address(bytes.fromhex(text[2:]), text)
    for spelling in (text, text.lower(), text.upper(), "0x" + text[2:].upper()):
        assert parse_address(spelling) == expected


@pytest.mark.parametrize("place", [index for index, letter in enumerate(USDC) if letter.isalpha() and index > 1])
def test_one_letter_in_the_wrong_case_fails_the_checksum(place):
    wrong = USDC[:place] + USDC[place].swapcase() + USDC[place + 1 :]
    with pytest.raises(ValueError, match="checksum"):
        parse_address(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x",
        USDC[2:],
        USDC[:-1],
        USDC + "0",
        f" {USDC}",
        f"{USDC}\n",
        USDC.replace("0x", "1x"),
        "0x" + "g" * 40,
        "0x" + "1_" * 20,
        "0x" + "00 " * 13 + "0",
        "0x" + "٣" * 40,  # Arabic digits: numbers to Python, not to anybody else here
        "vitalik.eth",
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="0x and 40 hex digits"):
        parse_address(text)


@pytest.mark.parametrize("raw", [b"", bytes(19), bytes(21), bytes(32)])
def test_only_twenty_bytes_are_an_address(raw):
    with pytest.raises(ValueError, match="20 bytes"):
        checksummed(raw)


@given(st.binary(min_size=20, max_size=20))
def test_checksum_is_what_other_wallets_write(raw):
    text = checksummed(raw)
    assert text == to_checksum_address(raw)
    assert parse_address(text) == parse_address(text.lower()) == Address(raw, text)


@given(st.text(max_size=60))
def test_no_text_breaks_it(text):
    with pytest.raises(ValueError, match="address"):
        parse_address(text)
