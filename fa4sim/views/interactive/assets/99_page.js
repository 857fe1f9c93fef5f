// In a page of its own: the data stands in the page.

async function start() {
  const read = (id) => document.getElementById(id).textContent;
  const root = document.getElementById("fa4-timeline");
  const picture = document.getElementById("fa4-picture");
  try {
    const columns = fromBase64(read("fa4-columns"));
    const app = await mountTimeline(root, { header: JSON.parse(read("fa4-header")), columns });
    picture?.remove();
    // Nothing else is on this page: keys are for the timeline, wherever the focus is.
    document.addEventListener("keydown", (event) => {
      if (event.target === document.body) app.input.key(event);
    });
  } catch (error) {
    root.hidden = true;
    picture?.append(el("p", { role: "alert" }, `The interactive timeline cannot be shown here: ${error.message}`));
  }
}

start();
