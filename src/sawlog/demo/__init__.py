"""The demo: an agent that works, is killed, goes on; and the proof that nothing was lost."""
