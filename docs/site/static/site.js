// A picture fills the screen when it is clicked, or when Enter is pressed on it; Escape ends that.
document.addEventListener("DOMContentLoaded", () => {
  for (const picture of document.querySelectorAll("article img")) {
    if (!picture.requestFullscreen || picture.closest("a")) continue;
    const toggle = () =>
      document.fullscreenElement ? document.exitFullscreen() : picture.requestFullscreen();
    picture.tabIndex = 0;
    picture.title = "Click to fill the screen";
    picture.addEventListener("click", toggle);
    picture.addEventListener("keydown", (event) => event.key === "Enter" && toggle());
  }
});
