"""What answers a box from outside, on listening sockets that were handed over: the network by host, the provider."""
