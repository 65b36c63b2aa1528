"""Stories: cluster articles about the same event, and summarize each cluster."""
