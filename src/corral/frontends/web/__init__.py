"""The server: HTTP API, event streams and the place of the page, over one engine."""
