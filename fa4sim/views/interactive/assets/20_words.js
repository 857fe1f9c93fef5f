// Words for slices, tracks and times.

const NUMBER = new Intl.NumberFormat("en-US");
const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";

function subscript(number) {
  return number < 0 ? "" : [...String(number)].map((digit) => SUBSCRIPTS[digit] ?? digit).join("");
}

/** A time of a run as its clock counts it. */
function clockTime(run, time) {
  return NUMBER.format(Math.round(time) + run.origin);
}

/** A length of time: "236 cycles (0.128 µs)". */
function lengthWords(run, length) {
  const text = `${NUMBER.format(length)} ${run.clock}`;
  if (!run.microseconds) return text;
  const micro = length * run.microseconds;
  return `${text} (${micro >= 100 ? NUMBER.format(Math.round(micro)) : Number(micro.toPrecision(3))} µs)`;
}

/** What to write on a slice, the longest first. */
function sliceLabels(run, i) {
  const name = run.name(i);
  const { block, stage } = run.slice;
  if (run.isWait(i)) return stage[i] >= 0 ? [`${name}[${stage[i]}]`, name] : [name];
  const named = opWords(run, i);
  if (OF_TILE.test(name)) return [named, name.slice(-1) + subscript(stage[i])];
  if (block[i] < 0) return [named];
  const labels = [`${named} · block ${block[i]}`, `${named} ${block[i]}`, named];
  return name.startsWith("load ") ? [...labels, name.slice(-1) + subscript(block[i])] : labels;
}

/** What is done once per work tile and Q stage. */
const OF_TILE = /^(?:issue|load|store) [QO]$/;

/** An op, with its Q stage where a track serves both: "QK₁". A load's stage is a slot, and no name. */
function opWords(run, i) {
  const byStage = ["mma", "tensor", "correction"].includes(run.track(i).role) || OF_TILE.test(run.name(i));
  return byStage ? run.name(i) + subscript(run.slice.stage[i]) : run.name(i);
}

/** A track by its parts: "softmax0, warp 2". */
function trackWords({ role, warp }) {
  return warp < 0 ? role : `${role}, warp ${warp}`;
}

/** Where a track is: "SM 0, CTA 0". */
function whereWords({ sm, cta }) {
  return [sm >= 0 ? `SM ${sm}` : "", cta >= 0 ? `CTA ${cta}` : ""].filter(Boolean).join(", ");
}

/** A slice in a few words: "wait for S_full[0]", "exp2, block 3". */
function sliceWords(run, i) {
  const [label] = sliceLabels(run, i);
  return run.isWait(i) ? `wait for ${label}` : label;
}

/** A slice in a sentence, for those who hear the page. */
function spokenWords(run, i, runs) {
  const { start, length } = run.slice;
  const of = runs.length > 1 ? `${run.label}: ` : "";
  const why = run.isWait(i) && run.slice.by[i] >= 0 ? ` Ended by ${run.text(run.slice.by[i])}.` : "";
  const direct = (links) => links.filter((link) => link.direct).length;
  return (
    `${of}${sliceWords(run, i)}, ${trackWords(run.track(i))}, from ${clockTime(run, start[i])} to ` +
    `${clockTime(run, run.endOf(i))}, ${lengthWords(run, length[i])}.${why} ` +
    `${direct(run.before(i))} before, ${direct(run.after(i))} after.`
  );
}

function counterName({ name }) {
  return name.replaceAll("_", " ");
}

/** A counter's value at a place of the time axis. */
function counterValue(counter, x) {
  const at = firstAbove(counter.x.length, (k) => counter.x[k], x) - 1;
  return at < 0 ? 0 : counter.values[at];
}

/** What ended a wait, in sentences; "" for what is none. */
function whyWords(run, i) {
  if (!run.isWait(i)) return "";
  const { by, by_warp, by_cta, caused, landed, phase, way } = run.slice;
  if (run.slice.arrived[i] >= 0) {
    return `It never ended: ${NUMBER.format(run.slice.arrived[i])} arrivals had come, too few for the phase.`;
  }
  if (phase[i] === 0) return "Starts free: phase 0 passes without an arrival.";
  if (by[i] < 0) return "The trace does not tell who ended it.";
  const warp = by_warp[i] >= 0 ? ` (warp ${by_warp[i]})` : "";
  const cta = by_cta[i] >= 0 && by_cta[i] !== run.track(i).cta ? ` of CTA ${by_cta[i]}` : "";
  const last = `Last to arrive: ${run.text(by[i])}${warp}${cta}, at ${clockTime(run, caused[i])}`;
  const gap = landed[i] - caused[i];
  const onTheWay = gap > 0 ? `, there ${lengthWords(run, gap)} later (${run.text(way[i]) || "on its way"})` : "";
  const waking = run.endOf(i) - landed[i];
  const seen = landed[i] < run.slice.start[i]
    ? "It was there before the wait began; the rest is the try itself."
    : `The warp went on ${lengthWords(run, waking)} after that.`;
  return `${last}${onTheWay}. ${seen}`;
}
