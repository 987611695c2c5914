"""What reviewers do through any door: vote, edit, settle, allow in advance, and look."""
