"""Doors to files that other tools wrote. Each reads a path into events and knows no database."""
