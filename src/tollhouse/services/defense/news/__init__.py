"""The news: articles gathered, told as stories, and the entities they name."""
