"""The facilitator service: verifies and settles x402 payments of other resource servers over HTTP."""
