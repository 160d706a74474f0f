"""What the programs in `docker/` share; Python's standard library only."""
