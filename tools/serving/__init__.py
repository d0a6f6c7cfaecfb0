"""The parts that all our HTTP servers share: connections with deadlines, bodies of bounded size, bounded work.

uvicorn and h11 parse HTTP and close idle connections. They have no deadline for headers or bodies, no limit on the
memory of a client that does not read its answer, and no policy for dropping connections when all are taken; this
package adds these.
"""
