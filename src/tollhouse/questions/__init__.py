"""Answers to questions: language model, grounding, citations and conversations."""
