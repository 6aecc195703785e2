"""The log: what can happen in a session, and the store of what did."""
