"""A session read again: its packets, why they held what they held, and what would differ."""
