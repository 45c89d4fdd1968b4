(() => {
  const $ = (id) => document.getElementById(id);
  // Another network of the spec is chosen by the hash of the address.
  const other = [...document.querySelectorAll("template[data-network]")].find(
    (each) => each.dataset.network === decodeURIComponent(location.hash.slice(1)),
  );
  const data = JSON.parse((other?.content.querySelector("script") || $("data")).textContent);
  const node = new Map(data.nodes.map((each) => [each.id, each]));
  const number = (n) => n.toLocaleString("en-US");
  const { ablate, arrow, selectorsOf } = rulesOf(data);
  const words = (role) => role.replaceAll("_", " ");
  const several = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

  /** A number as boxes show it. */
  function short(n) {
    if (n < 1000) return `${n}`;
    if (n < 999950) return `${(n / 1e3).toFixed(1)}k`;
    return n < 999950000 ? `${(n / 1e6).toFixed(1)}M` : `${(n / 1e9).toFixed(1)}G`;
  }

  function make(tag, text = "", attributes = {}) {
    const made = document.createElement(tag);
    made.append(...[text].flat());
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  // --- state ------------------------------------------------------------------------------------

  let removed = new Set(),
    history = [],
    result = ablate([]);
  const { parameters: whole, counts: full } = result; // before anything is removed
  let svg,
    view,
    chosen = null,
    current = data.order[0];

  function change(next) {
    history.push(removed);
    removed = next;
    update();
    sayResult();
  }

  function toggle(edges, out) {
    const next = new Set(removed);
    for (const e of edges) next[out ? "add" : "delete"](e);
    change(next);
  }

  const twins = (e) => data.edges.filter((other) => arrow(other) === arrow(e));

  function update() {
    result = ablate(selectorsOf(removed));
    const { problems, parameters, pruned, arrows } = result;
    const refused = problems.length > 0;
    $("count").textContent = refused ? "?" : number(parameters);
    $("count").dataset.value = refused ? "" : parameters;
    const less = whole - parameters;
    $("lost").textContent = refused
      ? `of ${number(whole)}`
      : less
        ? `(\u2212${number(less)} of ${number(whole)})`
        : "";
    $("problems").hidden = !refused;
    $("problems").replaceChildren(
      ...(refused ? [make("h2", "This would be refused"), make("ul", problems.map(problemItem))] : []),
    );
    $("variant").hidden = !removed.size;
    list(
      "arrows",
      `${several(arrows.length, "arrow")} fewer`,
      arrows.map((e) => `${arrow(e)} (${words(e.role)})`),
    );
    const them = pruned.length === 1 ? "it" : "them";
    list("pruned", `${several(pruned.length, "node")} pruned: no task reads ${them}`, pruned);
    $("yaml").hidden = refused;
    $("patch").textContent = patch();
    $("undo").disabled = !history.length;
    $("reset").disabled = !removed.size;
    for (const kind of document.querySelectorAll("[data-kind]")) {
      const all = data.edges.filter((e) => e.role === kind.dataset.kind);
      const out = all.filter((e) => removed.has(e)).length;
      kind.checked = out < all.length;
      kind.indeterminate = out > 0 && out < all.length;
      const left = all.filter((e) => result.kept.has(e)).length;
      kind.parentElement.querySelector(".number").textContent =
        left === all.length ? `${left}` : `${left} of ${all.length}`;
    }
    if (chosen) describe(chosen);
    else paint();
  }

  function problemItem({ message, nodes }) {
    const more = nodes.slice(1);
    const also =
      more.length > 4
        ? `${more.slice(0, 3).join(", ")} and ${more.length - 3} more`
        : more.join(", ");
    return make("li", also ? `${message}; the same holds for ${also}` : message, {
      "data-message": message,
    });
  }

  function list(id, title, items) {
    $(id).hidden = !items.length;
    $(id).firstElementChild.textContent = title;
    $(id).lastElementChild.replaceChildren(...items.map((text) => make("li", text)));
  }

  function patch() {
    if (!result.selectors.length) return "";
    const short = result.selectors
      .filter((each) => !each.includes("->"))
      .map((each) => each.replace("@*", ""));
    const plain = short.length === result.selectors.length && short.length < 3;
    const based = data.variants.filter((name) => name !== "command line");
    return [
      ...(based.length < data.variants.length ? ["# beside what the command line changed"] : []),
      "variants:",
      `  without_${plain ? short.join("_and_") : "some_arrows"}:`,
      ...(based.length ? [`    of: [${based.join(", ")}]`] : []),
      "    without:",
      ...result.selectors.map((each) => `      - ${each}`),
      "",
    ].join("\n");
  }

  function say(text) {
    $("say").textContent = text;
  }

  function sayResult() {
    if (result.problems.length) return; // the alert speaks
    const { length } = result.pruned;
    say(`${number(result.parameters)} parameters${length ? `, ${several(length, "node")} pruned` : ""}`);
  }

  // --- the drawing ------------------------------------------------------------------------------

  const stage = $("stage");
  const wide = matchMedia("(min-width: 801px) and (min-height: 501px)");
  const camera = cameraOf(stage, () => tip(null));
  const drawings = new Map(),
    legends = new Map();
  function add(name, [drawing, legend]) {
    drawings.set(name, drawing);
    legends.set(name, legend);
    if (legend) legend.querySelector("title").remove();
  }
  if (other) {
    for (const title of document.querySelectorAll("title, h1")) {
      if (!title.closest("svg")) title.textContent = other.dataset.title;
    }
    $("kinds").replaceChildren(...other.content.querySelector("ul").children);
  } else add(data.shown, [stage.querySelector("svg"), $("legend").querySelector("svg")]);
  for (const each of (other?.content || document).querySelectorAll("template[data-view]")) {
    add(each.dataset.view, each.content.querySelectorAll("svg"));
  }
  const edgeOf = (wire) =>
    data.edges.find(
      (e) =>
        e.role === wire.dataset.role &&
        e.source === wire.dataset.source &&
        e.target === wire.dataset.target &&
        e.delay === Number(wire.dataset.delay),
    );
  const all = (what) => [...svg.querySelectorAll(what)];
  const find = (id, at) =>
    svg.querySelector(`[data-node="${id}"][data-iteration="${at}"]`) ||
    svg.querySelector(`[data-node="${id}"]`);

  for (const each of drawings.values()) {
    each.setAttribute("role", "group");
    each.setAttribute("aria-describedby", "keys");
    each.setAttribute("preserveAspectRatio", "xMidYMid meet");
    each.querySelector("title").remove(); // it would pop up everywhere
    for (const wire of each.querySelectorAll(".wire")) {
      const hit = wire.querySelector("path").cloneNode();
      hit.setAttribute("class", "hit");
      wire.append(hit);
      wire.setAttribute("aria-hidden", "true"); // the details offer the same
      wire.edge = edgeOf(wire);
    }
    for (const g of each.querySelectorAll(".node")) {
      g.details = [...g.querySelectorAll("text")].find((each) =>
        each.textContent === data.details[g.dataset.node]);
      g.room = g.details?.getAttribute("textLength");
      g.setAttribute("role", "button");
      g.setAttribute("tabindex", "-1");
    }
  }

  const iterations = () => (view === "rolled" ? 1 : Number(view));
  function time(at) {
    if (view === "rolled") return "t";
    const back = iterations() - 1 - at;
    return data.start ? `t = ${at + 1}` : back ? `t-${back}` : "t";
  }

  function show(name) {
    view = name;
    svg = drawings.get(name);
    stage.replaceChildren(svg);
    $("legend").hidden = !legends.get(name);
    $("legend").lastElementChild.replaceChildren(legends.get(name) || "");
    $("walk").value = 0;
    stand(find(current, 0));
    camera.look(svg);
    update();
  }

  function paint() {
    const wrong = new Set(result.problems.flatMap((each) => each.nodes));
    const steps = walkSteps();
    const at = Number($("walk").value);
    const done = new Set(steps.slice(0, at).map(([id, t]) => `${id} ${t}`));
    const here = at ? steps[Math.min(at, steps.length) - 1].join(" ") : "";
    const found = new Set(hits());
    for (const g of all(".node")) {
      const n = node.get(g.dataset.node),
        key = `${n.id} ${g.dataset.iteration}`;
      const gone = !result.needed.has(n.id);
      mark(g, {
        gone,
        wrong: wrong.has(n.id),
        chosen: n.id === chosen,
        here: key === here,
        later: at && !done.has(key) && !gone,
        "hit-node": found.has(n),
        miss: sought() && !found.has(n),
      });
      recount(g, n);
      const label = [
        n.id,
        time(Number(g.dataset.iteration)),
        g.textContent.trim().replace(/\s+/g, " "),
        several(total(n), "parameter"),
      ];
      g.setAttribute("aria-label", label.concat(gone ? ["pruned"] : []).join(", "));
    }
    for (const g of all(".wire")) {
      const gone = !result.kept.has(g.edge),
        near = g.edge.source === chosen || g.edge.target === chosen;
      mark(g, {
        gone,
        later: at && !gone && !done.has(`${g.edge.target} ${g.dataset.iteration}`),
        miss: sought() && !near,
        near,
      });
    }
    const left = new Set([...result.kept].map((e) => words(e.role)));
    const kinds = new Set(data.edges.map((e) => words(e.role)));
    for (const text of $("legend").querySelectorAll("text")) {
      mark(text, { gone: kinds.has(text.textContent) && !left.has(text.textContent) });
    }
    $("walk").max = steps.length;
    const text = at
      ? `${here.replace(/ \d+$/, "")}, ${time(steps[at - 1][1])} (${at} of ${steps.length})`
      : "all";
    $("step").textContent = text;
    $("walk").setAttribute("aria-valuetext", text);
  }

  function mark(g, states) {
    for (const [name, on] of Object.entries(states)) g.classList.toggle(name, Boolean(on));
  }

  function walkSteps() {
    const left = data.order.filter((id) => result.needed.has(id));
    return Array.from({ length: iterations() }, (_, t) => left.map((id) => [id, t])).flat();
  }

  const countOf = (n) => result.counts.get(n.id) || full.get(n.id); // a pruned node: as it was
  const total = (n) => countOf(n).all;

  /** Show in a box how many parameters its node has now. */
  function recount(g, n) {
    const before = data.details[n.id],
      was = short(full.get(n.id).all);
    if (!g.details || was === "0") return;
    const rest = before.slice(0, -was.length);
    g.details.textContent = total(n) ? rest + short(total(n)) : rest.replace(/ \u00b7 $/, "");
    const share = g.details.textContent.length / before.length;
    g.details.setAttribute("textLength", Number(g.room) * share);
  }

  const sought = () => $("search").value.trim().toLowerCase();
  const matches = (n) =>
    [n.id, n.cell, n.shape, n.config, n.path].some((each) => each.toLowerCase().includes(sought()));
  const hits = () => (sought() ? data.nodes.filter(matches) : []);

  // --- details ----------------------------------------------------------------------------------

  function describe(id) {
    const n = node.get(id);
    chosen = id;
    const rows = [
      ["cell", [n.cell, n.config].filter(Boolean).join(", ")],
      ["shape", n.shape],
      ["parameters", `${number(total(n))} (its own ${number(countOf(n).own)})`],
      [
        "tasks",
        data.tasks
          .filter((task) => task.at.includes(id))
          .map((task) => task.name)
          .join(", "),
      ],
      ["row", n.row && `${n.row} (${n.path})`],
      ["YAML", n.text && make("code", n.text)],
    ].filter((row) => row[1]);
    const held = document.activeElement?.dataset?.arrow;
    $("about").replaceChildren(
      make("h3", result.needed.has(id) ? id : `${id} (pruned)`),
      make(
        "dl",
        rows.flatMap(([name, value]) => [make("dt", name), make("dd", value)]),
      ),
      ...arrowList(
        "Arrows that enter",
        data.edges.filter((e) => e.target === id),
      ),
      ...arrowList(
        "Arrows that leave",
        data.edges.filter((e) => e.source === id && e.target !== id),
      ),
    );
    if (held) $("about").querySelector(`[data-arrow="${held}"]`)?.focus();
    paint();
  }

  function arrowList(title, edges) {
    if (!edges.length) return [];
    return [
      make("h4", title),
      make(
        "ul",
        edges.map((e) => {
          const out = removed.has(e);
          const about = make("small", `${words(e.role)}, ${several(e.parameters, "parameter")}`);
          const press = make("button", out ? "Restore" : "Remove", {
            type: "button",
            "data-arrow": `${arrow(e)} ${e.role}`,
            "aria-label": `${out ? "Restore" : "Remove"} ${arrow(e)}, ${words(e.role)}`,
          });
          press.onclick = () => toggle(twins(e), !out);
          return make("li", [make("span", [arrow(e), about]), press], { class: "arrow" });
        }),
      ),
    ];
  }

  function tip(target, event) {
    const g = target?.closest?.(".node, .wire");
    $("tip").hidden = !g;
    if (!g) return;
    if (g.edge) {
      const e = g.edge,
        state = removed.has(e) ? "click to restore" : "click to remove";
      $("tip").replaceChildren(
        make("b", arrow(e)),
        `${words(e.role)}, ${several(e.parameters, "parameter")}; ${state}`,
      );
    } else {
      const n = node.get(g.dataset.node);
      $("tip").replaceChildren(
        make("b", n.id),
        `${n.cell}, ${n.shape}, ${several(total(n), "parameter")}`,
        make("br"),
        `${n.row} ${n.path}`,
      );
    }
    const area = stage.getBoundingClientRect(),
      own = $("tip").getBoundingClientRect();
    const { right, bottom } = g.getBoundingClientRect();
    const at = event || { clientX: right, clientY: bottom };
    const within = (from, room) => `${Math.max(4, Math.min(from + 14, room - 4))}px`;
    $("tip").style.left = within(at.clientX - area.left, area.width - own.width);
    $("tip").style.top = within(at.clientY - area.top, area.height - own.height);
  }

  // --- events -----------------------------------------------------------------------------------

  stage.addEventListener("click", (event) => {
    const g = event.target.closest(".node, .wire");
    if (!g || camera.moved()) return;
    if (g.edge) {
      toggle(twins(g.edge), !removed.has(g.edge));
      tip(g, event);
    } else {
      go(g);
      if (event.pointerType === "touch") tip(g, event);
      else if (wide.matches) $("details").scrollIntoView({ block: "nearest" });
    }
  });
  stage.addEventListener("pointermove", (event) => {
    if (event.pointerType === "mouse" && !camera.busy()) tip(event.target, event);
  });
  stage.addEventListener("pointerleave", () => tip(null));
  stage.addEventListener("focusin", (event) => {
    const g = event.target.closest(".node");
    if (!g) return;
    camera.reveal(g);
    describe(g.dataset.node);
    if (g.matches(":focus-visible")) tip(g);
  });
  stage.addEventListener("focusout", () => tip(null));

  /** One node can be reached with Tab; arrow keys lead from there to the others. */
  function stand(g) {
    for (const each of all('.node[tabindex="0"]')) each.setAttribute("tabindex", "-1");
    g.setAttribute("tabindex", "0");
    current = g.dataset.node;
  }

  function go(g) {
    if (!g) return;
    stand(g);
    g.focus();
  }

  const ways = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  stage.addEventListener("keydown", (event) => {
    const g = event.target.closest(".node"),
      way = ways[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") camera.zoom(0.8);
    else if (event.key === "-") camera.zoom(1.25);
    else if (event.key === "0") camera.home(false);
    else if (way && event.shiftKey) camera.pan(-60 * way[0], -60 * way[1]);
    else if (way && g) go(next(g, way));
    else if (g && event.key === "Home") go(find(data.order[0], 0));
    else if (g && event.key === "End") go(find(data.order.at(-1), iterations() - 1));
    else if (g && (event.key === "Enter" || event.key === " "))
      $("about").querySelector("button")?.focus();
    else if (event.key === "Escape") tip(null);
    else return;
    event.preventDefault();
  });

  $("about").addEventListener("keydown", (event) => {
    if (event.key === "Escape") find(current, iterations() - 1).focus();
  });

  /** The nearest node in a direction. */
  function next(from, [x, y]) {
    const middle = (g) => {
      const r = g.getBoundingClientRect();
      return [r.x + r.width / 2, r.y + r.height / 2];
    };
    const [a, b] = middle(from);
    const found = all(".node")
      .map((g) => {
        const [c, d] = middle(g),
          along = (c - a) * x + (d - b) * y,
          aside = Math.abs((c - a) * y) + Math.abs((d - b) * x);
        return { g, along, far: along + 3 * aside };
      })
      .filter((each) => each.along > 3);
    return found.sort((one, two) => one.far - two.far)[0]?.g;
  }

  $("zoom").onclick = ({ target }) => {
    const by = target.dataset.zoom;
    if (by) by === "fit" ? camera.home(false) : camera.zoom(Number(by));
  };
  $("kinds").onchange = ({ target }) => {
    toggle(
      data.edges.filter((e) => e.role === target.dataset.kind),
      !target.checked,
    );
  };
  $("undo").onclick = () => {
    removed = history.pop();
    update();
    sayResult();
  };
  $("reset").onclick = () => change(new Set());
  $("copy").onclick = async () => {
    const text = $("patch").textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren($("patch"));
      document.execCommand("copy");
    }
    say("Copied");
    $("copy").textContent = "Copied";
    setTimeout(() => {
      $("copy").textContent = "Copy YAML";
    }, 1500);
  };

  $("search").oninput = () => {
    paint();
    const { length } = hits();
    $("hits").textContent = sought() ? `${length} found${length ? ", Enter: next" : ""}` : "";
  };
  let turn = 0;
  $("look").onsubmit = (event) => {
    event.preventDefault();
    const found = hits();
    if (!found.length) return;
    const n = found[turn++ % found.length],
      g = find(n.id, iterations() - 1);
    stand(g);
    camera.centre(g);
    describe(n.id);
    say(g.getAttribute("aria-label"));
  };
  $("search").addEventListener("focus", () => {
    turn = 0;
  });

  let playing = null;
  function step() {
    paint();
    const here = svg.querySelector(".here");
    if (here) camera.reveal(here);
  }

  function play(on) {
    clearInterval(playing);
    playing = on
      ? setInterval(() => {
          const walk = $("walk");
          walk.value = Number(walk.value) + 1;
          if (walk.value === walk.max) play(false);
          step();
        }, 220)
      : null;
    $("play").textContent = on ? "\u275a\u275a" : "\u25b6";
    $("play").setAttribute("aria-label", on ? "Pause" : "Play the order of execution");
  }
  $("play").onclick = () => {
    if ($("walk").value === $("walk").max) $("walk").value = 0;
    play(!playing);
  };
  $("walk").oninput = () => {
    play(false);
    step();
  };

  /** The drawing, as it is now, as a file of its own. */
  $("download").onclick = () => {
    const copy = svg.cloneNode(true);
    copy.setAttribute("viewBox", extent(svg).join(" "));
    for (const each of copy.querySelectorAll(".hit")) each.remove();
    const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
    const grey = getComputedStyle(document.documentElement).getPropertyValue("--gone");
    const rules = [...document.styleSheets[0].cssRules].map((rule) => rule.cssText);
    style.textContent = rules
      .filter((text) => text.includes(".gone") && !text.includes("#legend"))
      .join("\n")
      .replaceAll("var(--gone)", grey)
      .replaceAll("var(--paper)", "#ffffff");
    copy.prepend(style);
    const text = new XMLSerializer().serializeToString(copy);
    const link = make("a", "", { download: `${data.name}.svg` });
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  /** If words would be smaller than 7 pixels, the drawing is opened rolled up. */
  function opening() {
    const shown = drawings.get(data.shown);
    const small = smallest(shown) * camera.sizeOf(shown) < READABLE;
    return small && data.views.includes("rolled") ? "rolled" : data.shown;
  }
  const opened = opening();

  for (const name of data.views) {
    const shown = name === "rolled" ? name : make("span", name).textContent;
    const radio = make("input", "", { type: "radio", name: "view", value: name });
    if (name !== "rolled") radio.setAttribute("aria-label", `unrolled, ${name}`);
    radio.checked = name === opened;
    radio.onchange = () => {
      play(false);
      show(name);
    };
    $("views").append(make("label", [radio, make("span", shown)]));
  }
  $("views").hidden = data.views.length < 2;

  $("networks").hidden = $("network").options.length < 2;
  $("network").value = other ? other.dataset.network : "";
  $("network").onchange = ({ target }) => {
    location.hash = encodeURIComponent(target.value);
  };
  addEventListener("hashchange", () => location.reload());
  if (!wide.matches) $("legend").open = false;

  document.body.classList.add("live");
  show(opened);
})();
