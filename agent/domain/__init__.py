"""The pure core: no I/O, no clock, no environment, and only pure imports from `signoff`."""
