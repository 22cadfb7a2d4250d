"""The database doctor: look without touching, heal on a copy, never lose a row."""
