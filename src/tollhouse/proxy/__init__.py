"""A toll in front of somebody else's HTTP API: requests are passed on to an upstream, answers passed back."""
