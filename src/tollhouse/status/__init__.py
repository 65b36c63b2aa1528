"""What went wrong and when: incidents and the heartbeats of processes, stored for all processes."""
