"""Butterflies, signed or not, by wedges: the graph form, parts of it, both engines."""
