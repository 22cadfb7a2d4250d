"""Read what the Hermes gateway left behind, decide what is wrong, propose the exact fix, and tell a person."""

__version__ = "0.1.0"
