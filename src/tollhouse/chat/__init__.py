"""Questions in plain words: what any service needs to answer them with or without a language model."""
