"""Statistics of calls: counted in each process, stored in batches, read by the console and the metrics."""
