"""Flow files: text to a tree with places, a tree to a flow, and every mistake at once."""
