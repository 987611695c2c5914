"""The pure rooms: no I/O, no clock, no environment, and no import of ours but `signoff`'s pure modules."""
