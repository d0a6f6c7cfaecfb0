"""The relations that questions ask about."""
