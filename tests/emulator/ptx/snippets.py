"""Small PTX texts for the tests."""

from fa4kernel.emulator.ptx.module import Function
from fa4kernel.emulator.ptx.parser import parse

REGISTERS = ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<99>; .reg .b64 %rd<99>;"


def entry_text(body: str, head: str = ".visible .entry kernel()") -> str:
    """A module whose only entry has this body, beginning on line 3; the usual registers exist."""
    return f".version 8.8 .target sm_100a .address_size 64\n{head} {{ {REGISTERS}\n{body}\n}}\n"


def entry(body: str, head: str = ".visible .entry kernel()") -> Function:
    """That entry, parsed."""
    return parse(entry_text(body, head)).entry()
