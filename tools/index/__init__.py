"""Search indexes over documents: build, search, open."""
