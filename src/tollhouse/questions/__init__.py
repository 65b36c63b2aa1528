"""Questions answered by a language model or by rules: models, dialogues, grounding and conversations."""
