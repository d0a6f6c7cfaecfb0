"""A forum with boards, threads and moderators."""
