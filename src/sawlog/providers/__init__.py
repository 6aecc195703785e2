"""Doors to models: strict checks of requests, and a fake provider that makes them."""
