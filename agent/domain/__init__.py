"""The pure rooms: what an action is, what policy says of it, how votes add up, how the record is chained.

Nothing here does I/O, reads a clock or the environment, or imports anything of ours outside this package.
"""
