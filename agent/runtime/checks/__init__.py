"""What `signoff check` finds in policy, commands, tools and open work before anything runs."""
