"""Questions generated from templates, paraphrases and data, with answers computed by `tools.question_gold`."""
