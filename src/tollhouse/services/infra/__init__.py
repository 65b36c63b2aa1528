"""The infra service: who makes what in the AI infrastructure value chain, and who depends on whom."""
