"""Examples: ordinary users of the product, to read and to run."""
