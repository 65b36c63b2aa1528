"""Prices of the operator: the setting `prices` over what the operations declare."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from msgspec import structs

from tollhouse.accounts.plans import Plans
from tollhouse.config.settings import PriceSettings, SettingError
from tollhouse.http.endpoint import Endpoint
from tollhouse.http.service import Service
from tollhouse.http.terms import Terms
from tollhouse.money import MICROS_PER_USD, micros

MAX_USD = 1_000_000
MAX_REQUESTS = 1_000_000


def with_prices(
    services: Sequence[Service], prices: Mapping[str, Mapping[str, PriceSettings]], plans: Plans, known: Collection[str]
) -> list[Service]:
    """The services with the operator's prices. Raises SettingError for a price of something that there is not.

    `known` are the names of all services, with those that are not served now.
    """
    unknown = prices.keys() - {*known}
    if unknown:
        raise SettingError(f"prices.{min(unknown)}: there is no such service; choose one of {', '.join(known)}")
    return [_priced(service, prices.get(service.name, {}), plans) for service in services]


def _priced(service: Service, prices: Mapping[str, PriceSettings], plans: Plans) -> Service:
    metered = {one.id: one for one in service.endpoints if one.terms.is_metered or one.terms.price is not None}
    for name in sorted(prices.keys() - metered.keys()):
        raise SettingError(
            f"prices.{service.name}.{name}: there is no such operation with a limit or a price; choose one of "
            f"{', '.join(metered)}"
        )
    changed = {
        name: replace(metered[name], terms=_terms(f"prices.{service.name}.{name}", metered[name], given, plans))
        for name, given in prices.items()
    }
    return replace(service, endpoints=[changed.get(one.id, one) for one in service.endpoints])


def _terms(where: str, operation: Endpoint, given: PriceSettings, plans: Plans) -> Terms:
    terms, price = operation.terms, operation.terms.price
    is_changed = given.request_usd is not None or given.row_usd is not None
    if is_changed and price is None:
        raise SettingError(f"{where}: this operation is not for sale; only `requests` can be set")
    if given.row_usd is not None and operation.count_units is None:
        raise SettingError(f"{where}: `row_usd` is for operations that count their rows, such as exports")
    if price is not None and is_changed:
        price = structs.replace(
            price,
            request_micros=_amount(where, "request_usd", given.request_usd, price.request_micros),
            unit_micros=_amount(where, "row_usd", given.row_usd, price.unit_micros),
            unit=price.unit or ("row" if given.row_usd else ""),
        )
    return structs.replace(terms, price=price, requests=_requests(where, given.requests, plans))


def _amount(where: str, name: str, given: Decimal | None, current: int) -> int:
    if given is None:
        return current
    # A call must cost something, whatever it returns.
    least, exact = 1 if name == "request_usd" else 0, given * MICROS_PER_USD
    if not given.is_finite() or not least <= exact <= MAX_USD * MICROS_PER_USD or exact % 1:
        bound = "greater than zero" if least else "zero or more"
        raise SettingError(f"{where}: `{name}` must be {bound}, in whole millionths of a dollar, at most {MAX_USD:,}")
    return micros(given)


def _requests(where: str, given: int | dict[str, int] | None, plans: Plans) -> dict[str, int]:
    """How many requests a call counts as, by plan."""
    by_plan = dict.fromkeys(plans.names, given) if isinstance(given, int) else given or {}
    for name, count in by_plan.items():
        if name not in plans.names:
            raise SettingError(f"{where}: `requests` names the plan {name!r}, not one of {', '.join(plans.names)}")
        if not 1 <= count <= MAX_REQUESTS:
            raise SettingError(f"{where}: `requests` must be from 1 to {MAX_REQUESTS:,}")
    return by_plan
