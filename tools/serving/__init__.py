"""The parts that all our HTTP servers share: uvicorn with our limits, one form of answers, and bounded work."""
