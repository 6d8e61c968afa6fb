"""One module per step kind: what a frame that stands at such a step does."""
