"""Compaction: a region of history gives way to a checkpoint that is checked before it counts.

Pure, like the builder it stands on: which region goes (`history`, `region`), what code can say of
it (`facts`, `extractive`), whether a checkpoint may stand in its place (`checking`), and what a
summariser is asked and may answer (`asking`). Who appends and who asks is the session's.
"""
