// Colours and hatches. The looks of ops and waits come with the data: they are those of the static
// pictures, eight colours that stay apart for colour-blind readers, and a hatch for a second sign.

const HATCH = 8;

/** The page's own colours, from the style sheet: they follow the reader's light or dark setting. */
function readTheme(root) {
  const style = getComputedStyle(root);
  const value = (name) => style.getPropertyValue(`--fa4-${name}`).trim();
  const names = ["paper", "ink", "soft", "line", "band", "accent", "halo"];
  return Object.fromEntries(names.map((name) => [name, value(name)]));
}

function rgb(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

function mixed(colour, paper, keep) {
  const [a, b] = [rgb(colour), rgb(paper)];
  return `rgb(${a.map((value, k) => Math.round(value * keep + b[k] * (1 - keep))).join(",")})`;
}

function luminance(colour) {
  const [r, g, b] = rgb(colour).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** How slices are filled, by run, kind and name. */
class Looks {
  constructor(runs, theme) {
    this.theme = theme;
    this.dark = luminance(theme.paper) < 0.25;
    this.patterns = new Map();
    this.of = runs.map((run) => ({
      ops: this.table(run.looks.ops, false),
      waits: this.table(run.looks.waits, true),
    }));
  }

  table(looks, pale) {
    return new Map(Object.entries(looks).map(([code, look]) => [Number(code), this.make(look, pale)]));
  }

  make([given, hatch, group], pale) {
    const colour = this.dark && luminance(given) < 0.03 ? "#bbbbbb" : given;
    const darkFill = luminance(colour) < 0.25;
    return {
      group,
      hatch,
      fill: pale ? mixed(colour, this.theme.paper, this.dark ? 0.42 : 0.22) : colour,
      faint: mixed(colour, this.theme.paper, (pale ? 0.09 : 0.18) * (this.dark ? 1.7 : 1)),
      stroke: pale ? mixed(colour, this.theme.paper, this.dark ? 0.9 : 0.6) : darkFill ? "rgba(255,255,255,.5)" : "rgba(0,0,0,.3)",
      ink: pale ? this.theme.ink : darkFill ? "#ffffff" : "#222222",
      line: colour,
    };
  }

  slice(run, i) {
    const looks = this.of[run.number];
    return (run.isWait(i) ? looks.waits : looks.ops).get(run.slice.name[i]);
  }

  /** The pattern of a look's hatch; null for none. */
  pattern(context, look) {
    if (!look.hatch) return null;
    const key = `${look.hatch} ${look.stroke}`;
    if (!this.patterns.has(key)) this.patterns.set(key, context.createPattern(hatchTile(look), "repeat"));
    return this.patterns.get(key);
  }
}

/** A little picture of a hatch that can be laid side by side. */
function hatchTile({ hatch, stroke }) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = HATCH;
  const context = canvas.getContext("2d");
  context.strokeStyle = context.fillStyle = stroke;
  context.lineWidth = 1.2;
  const line = (x0, y0, x1, y1) => {
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
  };
  const rising = () => [-HATCH, 0, HATCH].forEach((x) => line(x - 1, HATCH + 1, x + HATCH + 1, -1));
  const falling = () => [-HATCH, 0, HATCH].forEach((x) => line(x - 1, -1, x + HATCH + 1, HATCH + 1));
  if ("/x".includes(hatch)) rising();
  if (hatch === "x") falling();
  if (hatch === "-") line(0, HATCH / 2, HATCH, HATCH / 2);
  if (hatch === "|") line(HATCH / 2, 0, HATCH / 2, HATCH);
  if (".o".includes(hatch)) {
    context.beginPath();
    context.arc(HATCH / 2, HATCH / 2, hatch === "." ? 1.2 : 2.4, 0, 7);
    if (hatch === ".") context.fill();
    else context.stroke();
  }
  return canvas;
}
