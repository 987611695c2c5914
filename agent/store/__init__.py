"""SQL, one module per noun; `views` holds the read models."""
