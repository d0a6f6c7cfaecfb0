"""Contains the exceptions of foreign code and of the tasks it starts."""
