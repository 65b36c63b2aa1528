"""Which language a page was in before GDELT translated it, from the TranslationInfo column of GKG and mentions."""

import re
from functools import lru_cache

# GDELT writes ISO 639-2/3, articles carry ISO 639-1.
_LANGUAGES = """
afr:af amh:am ara:ar aze:az bel:be ben:bn bos:bs bul:bg cat:ca ces:cs cze:cs chi:zh zho:zh dan:da deu:de ger:de
ell:el gre:el est:et eus:eu fas:fa per:fa fin:fi fra:fr fre:fr gle:ga glg:gl guj:gu hat:ht heb:he hin:hi hrv:hr
hun:hu hye:hy arm:hy ind:id isl:is ice:is ita:it jpn:ja kan:kn kat:ka geo:ka kaz:kk khm:km kir:ky kor:ko lao:lo
lav:lv lit:lt mal:ml mar:mr mkd:mk mac:mk mon:mn msa:ms may:ms mya:my bur:my nep:ne nld:nl dut:nl nno:nn nob:nb
nor:no ori:or pan:pa pol:pl por:pt pus:ps ron:ro rum:ro rus:ru sin:si slk:sk slo:sk slv:sl som:so spa:es sqi:sq
alb:sq srp:sr swa:sw swe:sv tam:ta tel:te tgk:tg tgl:tl tha:th tur:tr ukr:uk urd:ur uzb:uz vie:vi
"""
_TWO_LETTERS = dict(pair.split(":") for pair in _LANGUAGES.split())
_SOURCE = re.compile(rb"srclc:([a-z]{3})")


@lru_cache(maxsize=1024)
def language_of(translation: bytes) -> str:
    """ISO 639-1 of the original. A page that GDELT did not translate was in English, says its codebook."""
    if not translation.strip():
        return "en"
    found = _SOURCE.search(translation)
    return _TWO_LETTERS.get(found[1].decode(), "") if found else ""
