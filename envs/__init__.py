"""The environments: each is tools, tasks and reward channels put together. `catalog` has their ids."""
