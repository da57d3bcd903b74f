"""What a run looks like on paper."""
