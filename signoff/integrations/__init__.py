"""One module and optional extra per framework."""
