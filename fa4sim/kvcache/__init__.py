"""What a KV cache costs in pages: fragmentation, sharing of prefixes, users of a GPU.

A serving engine keeps K and V of all layers in pages of so many tokens. A request that branches
(parallel samples, speculation) or begins like others shares pages with them; where it goes its own
way inside a page, the page is copied. :class:`Tokens` is a tree of such requests; its ``pages``
counts in closed form, :class:`PageAllocator` by allocating one page after the other. A test holds
them against each other.

>>> from fa4sim.kvcache import CacheModel, Tokens
>>> prompt = Tokens(1000, (Tokens(200), Tokens(30)))  # two samples of one prompt
>>> prompt.pages(16), prompt.alone(16)
(78, 140)
>>> CacheModel(layers=80, kv_heads=8).page_bytes(16) * 78 / 2**20
390.0
"""

from fa4sim.kvcache.allocator import OutOfPages, PageAllocator
from fa4sim.kvcache.lengths import Lengths
from fa4sim.kvcache.model import CacheModel
from fa4sim.kvcache.serving import (
    PageRow,
    Workload,
    compare_page_sizes,
    users,
    users_without_pages,
)
from fa4sim.kvcache.tokens import Tokens

__all__ = [
    "CacheModel",
    "Lengths",
    "OutOfPages",
    "PageAllocator",
    "PageRow",
    "Tokens",
    "Workload",
    "compare_page_sizes",
    "users",
    "users_without_pages",
]
