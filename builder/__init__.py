"""The builder: from events to the packets that a model sees. Pure."""
