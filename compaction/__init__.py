"""Compaction: what a history becomes when it no longer fits. This release only reads foreign ones."""
