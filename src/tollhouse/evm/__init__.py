"""What Ethereum fixes: hashes, addresses, signatures, and the two forms of message a wallet signs."""
