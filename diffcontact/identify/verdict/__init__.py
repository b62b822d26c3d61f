"""Whether a model explains the data it was fitted to, in words: what to know before any interval is read."""
