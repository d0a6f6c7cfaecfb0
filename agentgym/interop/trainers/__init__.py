"""Our environments in the form that other trainers expect."""
