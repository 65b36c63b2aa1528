"""The assistant: questions in words about the company graph."""
