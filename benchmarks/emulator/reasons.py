"""Why a target of the emulator may be missed, and what would reach it: said on the page if so."""

RATIO = (
    "Reading and decoding the PTX, which is counted here and done once for any number of launches "
    "(`decode`), takes a good part of it: see the table. The CTAs of a causal grid have different "
    "numbers of blocks, so their warps part, and calls on arrays of few lanes, under masks, are "
    "bound anew for each range of lanes. Larger grids do better; so would a decoder that keeps "
    "what it made of a text, and convoys that keep CTAs of the same length together."
)
RATE = (
    "Each of the processes has half of the CTAs, so its arrays are half as long, and the cost of "
    "starting NumPy calls weighs more; where CTAs end at different times (causal) their warps "
    "part, too. About a quarter of the time is the products themselves. Larger grids come nearer "
    "(next section); beyond that, waits, arrivals and the issue of MMAs would have to be compiled."
)
ONE_CTA = (
    "The arrays of one CTA are a few hundred values long, so what counts is how many Python and "
    "NumPy calls there are. Runs of scalar instructions are no longer what takes long: about 23 of "
    "150 ms in a trial, so that even free they would make the rest 1.2 times as fast. Compiled to "
    "plain C in that trial, short ones were 10 to 20 times as fast, the longest slower than in "
    "NumPy. The rest is waits, arrivals, the issue of MMAs and the scheduling of warps: these "
    "would have to be compiled. No dependency was added."
)
CHECKS = (
    "What the checks do for an instruction costs about the same for one CTA as for sixteen, and "
    "one CTA's own instructions cost little. Batches of events, as for MMAs, would help."
)
MEMORY = "A wave's memory is not all given back to the system when it ends."
