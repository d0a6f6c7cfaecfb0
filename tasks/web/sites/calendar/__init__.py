"""A calendar with people, rooms and invitations."""
