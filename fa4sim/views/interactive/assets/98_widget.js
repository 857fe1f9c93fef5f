// In a notebook: what anywidget calls to show a model.

async function render({ model, el: place }) {
  const root = el("div");
  place.append(root);
  const raw = model.get("columns"); // a DataView over the bytes
  const app = await mountTimeline(root, {
    header: JSON.parse(model.get("header")),
    columns: new Uint8Array(raw.buffer ?? raw, raw.byteOffset ?? 0, raw.byteLength),
  }, {
    onSelect(selected) {
      model.set("selected", selected ?? {});
      model.save_changes();
    },
  });
  root.style.setProperty("--fa4-height", `${model.get("height")}px`);
  app.resize();
  return () => app.destroy();
}

export default { render };
