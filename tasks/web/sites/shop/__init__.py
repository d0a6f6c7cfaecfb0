"""A shop with a cart, orders and accounts."""
