// The column of names left of the tracks: real buttons, which open and close what they name.

class Labels {
  constructor(app, place) {
    Object.assign(this, { app, place, made: new Map() });
  }

  /** Put a label at every line; those that stay keep their element, and with it the focus. */
  layout() {
    const { lines } = this.app;
    const kept = new Map();
    lines.forEach((line) => {
      const label = this.made.get(line.node) ?? this.make(line.node);
      const { style } = label;
      style.top = `${line.y}px`;
      style.height = `${line.height}px`;
      style.paddingLeft = `calc(4px + ${line.depth} * var(--fa4-indent))`;
      label.querySelector("button")?.setAttribute("aria-expanded", String(line.node.open));
      label.classList.toggle("fa4-open", line.node.open);
      kept.set(line.node, label);
    });
    for (const [node, label] of this.made) if (!kept.has(node)) label.remove();
    for (const label of kept.values()) if (!label.isConnected) this.place.append(label);
    this.made = kept;
  }

  make(node) {
    const inside = [el("span", {}, node.label)];
    if (node.note) inside.push(el("small", {}, node.note));
    if (node.counter) inside.push(el("small", {}, counterMost(node.counter)));
    const content = node.canOpen
      ? el("button", {
          type: "button", title: node.title, "aria-label": `${node.run.label}, ${node.title}`,
          click: () => this.app.toggle(node),
        }, el("span", { class: "fa4-arrow", "aria-hidden": "true" }, "▸"), ...inside)
      : el("div", { title: node.title }, ...inside);
    return el("div", { class: `fa4-label fa4-${node.kind}` }, content);
  }
}

function counterMost({ most, unit }) {
  if (unit === "percent") return "0–100 %";
  return `most ${most >= 10240 ? `${NUMBER.format(Math.round(most / 1024))} Ki` : NUMBER.format(most)} ${unit}`;
}
