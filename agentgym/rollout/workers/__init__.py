"""Where environments run: on the event loop, in threads, in processes or on a Ray cluster, with the same semantics."""
