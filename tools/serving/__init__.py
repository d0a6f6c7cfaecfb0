"""What all our HTTP servers share: connections that cannot be held for ever, bodies of bounded size, bounded work.

uvicorn and h11 parse HTTP and close idle connections. They have no deadline for headers or bodies, no limit on what a
client that does not read its answer may hold, and no choice of whom to drop when all connections are taken; that is
what this package adds.
"""
