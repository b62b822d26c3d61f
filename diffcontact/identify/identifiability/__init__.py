"""Which parameters the data determine, and in words which they do not."""
