"""The run store: the only room that speaks Redis."""
