"""Onrush's benchmark harness: redis-server and onrush-server in turns, on the same core, in one run."""
