"""What all paths share: votes, edits, run starts, and what a person may see."""
