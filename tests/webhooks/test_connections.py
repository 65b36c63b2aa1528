"""What is connected to, and what certificates are believed: over real sockets, under our own authority."""

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook

from tests.fakes.receiver import receiver
from tests.webhooks.certificates import Authority
from tests.webhooks.conftest import IMPATIENT
from tollhouse.http_client.targets import TargetRefused, TargetRules
from tollhouse.http_client.validated import ValidatedTransport

HOST = "hooks.example"


class Names:
    """A resolver whose answers a test changes."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        return self.addresses


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls_hook(authority):
    with receiver(authority.server(HOST)) as running:
        yield running


async def told_over(sender, hook, webhooks):
    """Register at `hook` under HOST, deliver one event; its delivery and the secret."""
    sender.webhooks = webhooks
    made = await sender.register(hook.url(host=HOST))
    await sender.put()
    await webhooks.deliver_due()
    (delivery,) = await sender.deliveries()
    return delivery, made.secret


async def test_vetted_address_is_connected_to_while_tls_and_host_keep_the_name(sender, tls_hook, authority):
    names = Names("127.0.0.1")
    delivery, secret = await told_over(sender, tls_hook, sender.new_webhooks(resolve=names, tls=authority.trust()))
    assert delivery.state == "delivered"
    (told,) = tls_hook.taken
    assert tls_hook.server_names == [HOST]
    assert told.headers["host"] == f"{HOST}:{tls_hook.port}"
    assert Webhook(secret).verify(told.body, told.headers)
    assert names.asked == [HOST, HOST]  # at registration, and again at the connection


async def test_certificate_of_another_name_is_refused(sender, authority):
    with receiver(authority.server("other.example")) as hook:
        webhooks = sender.new_webhooks(resolve=Names("127.0.0.1"), tls=authority.trust())
        delivery, _ = await told_over(sender, hook, webhooks)
        assert (delivery.state, delivery.last_error) == ("pending", "tls")
        assert hook.told == []


async def test_certificate_of_an_unknown_authority_is_refused(sender, tls_hook):
    delivery, _ = await told_over(sender, tls_hook, sender.new_webhooks(resolve=Names("127.0.0.1")))
    assert (delivery.state, delivery.last_error) == ("pending", "tls")
    assert tls_hook.told == []


async def test_plain_server_at_an_https_address_is_refused(sender, hook, authority):
    hook.scheme = "https"
    webhooks = sender.new_webhooks(resolve=Names("127.0.0.1"), tls=authority.trust(), capacity=IMPATIENT)
    delivery, _ = await told_over(sender, hook, webhooks)
    assert delivery.state == "pending"
    assert hook.told == []


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_name_that_is_rebound_after_registration_is_not_connected_to(sender, tls_hook, authority, address):
    names = Names("93.184.216.34")
    sender.webhooks = sender.new_webhooks(allow_loopback=False, resolve=names, tls=authority.trust())
    await sender.register(tls_hook.url(host=HOST))
    names.addresses = [address]
    await sender.put()
    await sender.webhooks.deliver_due()
    (delivery,) = await sender.deliveries()
    assert (delivery.state, delivery.last_error) == ("pending", "address")
    assert tls_hook.connections == 0


async def test_plain_name_of_this_machine_that_is_rebound_to_the_public_is_not_called(sender, hook):
    names = Names("127.0.0.1")
    sender.webhooks = sender.new_webhooks(resolve=names)
    await sender.register(hook.url(host="localhost"))
    names.addresses = ["93.184.216.34"]
    await sender.put()
    await sender.webhooks.deliver_due()
    (delivery,) = await sender.deliveries()
    assert delivery.last_error == "address"
    assert hook.connections == 0


async def test_kept_connection_serves_its_own_name_alone(authority):
    """Two names at one address: the second is verified for itself."""
    with receiver(authority.server(HOST)) as hook:
        transport = ValidatedTransport(TargetRules(allow_loopback=True), Names("127.0.0.1"), authority.trust())
        async with httpx2.AsyncClient(transport=transport) as client:
            headers = {"webhook-id": "evt_1"}
            for _ in range(2):
                assert (await client.post(hook.url(host=HOST), headers=headers)).status_code == 204
            assert hook.connections == 1
            with pytest.raises(httpx2.ConnectError):
                await client.post(hook.url(host="other.example"), headers=headers)


async def test_proxies_of_the_environment_are_not_used(sender, hook, monkeypatch):
    with receiver() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url("/"))
        sender.webhooks = sender.new_webhooks()
        await sender.register(hook.url())
        await sender.put()
        await sender.webhooks.deliver_due()
        assert len(hook.taken) == 1
        assert proxy.connections == 0


async def test_next_address_is_tried_when_the_first_does_not_answer(sender, tls_hook, authority):
    # Nothing listens at ::1 on that port.
    webhooks = sender.new_webhooks(resolve=Names("::1", "127.0.0.1"), tls=authority.trust())
    delivery, _ = await told_over(sender, tls_hook, webhooks)
    assert delivery.state == "delivered"


@pytest.mark.parametrize(
    "url", ["http://127.1:8080/", "http://user@127.0.0.1:8080/", "http://10.0.0.1:8080/", "unix:///run/x.sock"]
)
async def test_transport_refuses_by_itself_what_was_never_registered(url):
    transport = ValidatedTransport(TargetRules(allow_loopback=True), Names("127.0.0.1"))
    async with httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises((TargetRefused, httpx2.UnsupportedProtocol)):
            await client.get(url)
