"""What all tests share: how properties are tried."""

from hypothesis import HealthCheck, settings

# A slow machine is no failure, and a red run is about the change: the same examples each time.
settings.register_profile(
    "agentgym", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("agentgym")
