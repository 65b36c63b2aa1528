"""USDC deposits: found on the chain, credited once, and watched for reorganisations."""
