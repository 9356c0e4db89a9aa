"""C: a verified program tree becomes text, and text becomes a library."""
