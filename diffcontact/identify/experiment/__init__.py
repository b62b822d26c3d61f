"""What to do next: experiments by what they would tell."""
