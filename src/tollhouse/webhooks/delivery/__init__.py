"""How what is in the outbox reaches its receivers: when, how many at once, and what becomes of a refusal."""
