"""A session at work: what an agent's loop calls, and what stands behind it."""
