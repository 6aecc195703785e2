"""The files around an agent: looked at, compared, watched, read for instructions."""
