"""Benchmarks that anyone can rerun."""
