"""The pages of MiniWoB++ as environments."""
