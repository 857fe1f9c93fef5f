"""FlashAttention-4's forward kernel, one file per role.

Read ``barriers`` for the table of who waits for whom, then ``load``, ``mma``, ``softmax``,
``correction`` and ``epilogue``, which follow the kernel's own loops; ``cluster`` holds what they
share, ``costs`` what each piece of work costs, ``gpu`` how tiles are placed on SMs.
"""
