"""A FlashAttention-3-style forward kernel for Hopper, one file per role.

Read ``barriers`` for the table of who waits for whom, then ``load``, ``consumer`` (and what it does
between its barriers: ``products``, ``softmax``, ``epilogue``), which follow the kernel's own loops;
``plain`` is a FlashAttention-2 on the same hardware, ``cluster`` holds what they share, ``costs``
what each piece of work costs.
"""
