"""Compaction: what a history becomes when it no longer fits. So far only foreign ones are read."""
