"""Each subject of a store, in terms of named queries: the same for every database."""
