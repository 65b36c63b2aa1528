"""PyPI's x402, the official client in Python, pays for one request."""

import json
import os
import sys

from eth_account import Account
from x402 import x402ClientSync
from x402.http import decode_payment_response_header
from x402.http.clients.requests import x402_requests
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact.register import register_exact_evm_client
from x402.mechanisms.evm.upto.client import UptoEvmScheme

client = x402ClientSync()
signer = EthAccountSigner(Account.from_key(os.environ["PAYER_KEY"]))
register_exact_evm_client(client, signer)
client.register("eip155:*", UptoEvmScheme(signer))
with x402_requests(client) as session:
    answer = session.get(os.environ["URL"], timeout=60)
settled = decode_payment_response_header(answer.headers["PAYMENT-RESPONSE"])
told = {"status": answer.status_code, "body": answer.json(), "settled": settled.model_dump(mode="json")}
sys.stdout.write(json.dumps(told))
