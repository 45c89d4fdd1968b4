const READABLE = 7; // pixels of the smallest words

/** The font size of the smallest words of a drawing. */
function smallest(svg) {
  const sizes = [...svg.querySelectorAll("text")].map((each) => Number(each.getAttribute("font-size")));
  return Math.min(...sizes);
}

/** [x, y, width, height] of a drawing, whatever is seen of it. */
function extent(svg) {
  svg.whole ||= svg.getAttribute("viewBox").split(" ").map(Number);
  return svg.whole;
}

/** Which part of the drawing is seen: mouse, wheel, one finger and two; keys are the page's. */
function cameraOf(stage, onMove) {
  let svg, whole; // the drawing, and [x, y, width, height] of all of it
  let box = [0, 0, 1, 1]; // of what is seen
  let untouched = true;
  let way = 0; // that pointers have gone since they came down
  const fingers = new Map();

  const area = () => stage.getBoundingClientRect();
  const scale = () => box[2] / (area().width || 1); // of the drawing per pixel

  /** What is in the middle of the stage is always inside the drawing. */
  function see([x, y, width, height]) {
    const within = (low, size, end) => Math.max(-size / 2, Math.min(end - size / 2, low));
    box = [within(x, width, whole[2]), within(y, height, whole[3]), width, height];
    onMove();
    stage.classList.toggle("whole", box[2] > whole[2] - 1 && box[3] > whole[3] - 1);
    svg.setAttribute("viewBox", box.map((n) => n.toFixed(2)).join(" "));
  }

  /** On a phone, the stage is as high as the drawing in full width. */
  function frame(at) {
    const [, , width, height] = extent(at);
    stage.style.setProperty("--shape", `${width} / ${height}`);
    stage.style.setProperty("--high", `${height}px`);
  }

  function look(at) {
    svg = at;
    whole = extent(svg);
    home();
  }

  /** Pixels per length of a drawing of which everything is seen. */
  function sizeOf(at) {
    frame(at);
    const [, , w, h] = extent(at);
    const { width, height } = area();
    return Math.min((width || 1) / w, (height || 1) / h);
  }

  /** See everything; or, to `read` words that would be too small, the top in full width. */
  function home(read = true) {
    const { width, height } = area();
    const all = sizeOf(svg);
    const cut = read && smallest(svg) * all < READABLE;
    const used = cut ? Math.max(all, Math.min(width / whole[2], 0.9)) : all;
    const [seen, deep] = [(width || 1) / used, (height || 1) / used];
    see([(whole[2] - seen) / 2, used > all ? 0 : (whole[3] - deep) / 2, seen, deep]);
    untouched = true;
  }

  function zoom(factor, [x, y] = [box[0] + box[2] / 2, box[1] + box[3] / 2]) {
    const next = scale() * factor;
    if (next < 0.08 || next > 30) return;
    const [left, top, width, height] = box;
    see([x - (x - left) * factor, y - (y - top) * factor, width * factor, height * factor]);
    untouched = false;
  }

  /** Move the drawing, in pixels. */
  function pan(dx, dy) {
    see([box[0] - dx * scale(), box[1] - dy * scale(), box[2], box[3]]);
    untouched = false;
  }

  function place(x, y) {
    const { left, top } = area();
    return [box[0] + (x - left) * scale(), box[1] + (y - top) * scale()];
  }

  /** Move as little as brings a node into sight. */
  function reveal(node) {
    const [here, own] = [area(), node.getBoundingClientRect()];
    const over = (low, high, from, to) =>
      low < from + 20 ? from + 20 - low : high > to - 20 ? to - 20 - high : 0;
    const dx = over(own.left, own.right, here.left, here.right);
    const dy = over(own.top, own.bottom, here.top, here.bottom);
    if (dx || dy) pan(dx, dy);
  }

  function centre(node) {
    const [here, own] = [area(), node.getBoundingClientRect()];
    pan(
      here.left + here.width / 2 - own.left - own.width / 2,
      here.top + here.height / 2 - own.top - own.height / 2,
    );
  }

  stage.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    if (!fingers.size) way = 0;
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const [x, y] = [event.clientX, event.clientY];
    const [dx, dy] = [x - before[0], y - before[1]];
    way += Math.abs(dx) + Math.abs(dy);
    if (way < 5) return;
    stage.classList.add("moving");
    fingers.set(event.pointerId, [x, y]);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    const scrolls = event.pointerType === "touch" && stage.classList.contains("whole");
    if (!other) return scrolls || pan(dx, dy); // one finger scrolls the page
    const span = (a, b) => Math.hypot(a - other[0], b - other[1]) || 1;
    pan(dx / 2, dy / 2);
    zoom(span(...before) / span(x, y), place((x + other[0]) / 2, (y + other[1]) / 2));
  });
  for (const end of ["pointerup", "pointercancel"]) {
    addEventListener(end, (event) => {
      fingers.delete(event.pointerId);
      if (fingers.size) return;
      stage.classList.remove("moving");
      setTimeout(() => (way = 0)); // after the click that follows
    });
  }
  function turn(event) {
    event.preventDefault();
    const by = Math.max(-60, Math.min(60, event.deltaY * (event.deltaMode ? 20 : 1)));
    zoom(Math.exp(by * 0.004), place(event.clientX, event.clientY));
  }
  stage.addEventListener("wheel", turn, { passive: false });
  stage.addEventListener("dragstart", (event) => event.preventDefault());

  new ResizeObserver(() => {
    const { width, height } = area();
    if (!svg || !width || Math.abs(box[3] / box[2] - height / width) < 0.001) return;
    if (untouched) return home();
    const deep = (box[2] * height) / width;
    see([box[0], box[1] + (box[3] - deep) / 2, box[2], deep]);
  }).observe(stage);
  addEventListener("beforeprint", () => svg.setAttribute("viewBox", whole.join(" ")));
  addEventListener("afterprint", () => see(box));

  return { look, home, zoom, pan, reveal, centre, sizeOf, moved: () => way >= 5, busy: () => fingers.size > 0 };
}
