"""The walls: namespaces, mounts, credentials, Landlock, seccomp. Plain system calls, one concern per module."""
