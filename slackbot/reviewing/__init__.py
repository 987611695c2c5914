"""What every way in shares: votes, edits, run starts, and what a person may see."""
