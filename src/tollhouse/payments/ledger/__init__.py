"""The money: double entry in whole micro-USD, durable before anyone is told."""
