"""Doors for agent frameworks: their own stores of messages, kept in sessions of the log."""
