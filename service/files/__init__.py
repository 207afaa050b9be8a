"""Whole files, in pieces: fill their holes, add predictions, read their columns. Start at ``work``.

Nothing is imported here: pyarrow takes a while to load, and not every request needs it.
"""
