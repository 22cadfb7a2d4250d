"""Where events come from: one module per kind of source."""
