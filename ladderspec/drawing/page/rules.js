"use strict";
/** What a variant would be, by the rules of `ladderspec diff --without`. */
function rulesOf(data) {
  const node = new Map(data.nodes.map((each) => [each.id, each]));
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  const arrow = (e) => `${e.source}${e.delay ? `(t-${e.delay})` : ""} -> ${e.target}`;
  const kindSelector = (role) => (["encoder", "decoder"].includes(role) ? `${role}@*` : role);

  function selectorsOf(removed) {
    const found = [];
    for (const role of new Set(data.edges.map((e) => e.role))) {
      const all = data.edges.filter((e) => e.role === role);
      const out = all.filter((e) => removed.has(e));
      if (out.length === all.length) found.push(kindSelector(role));
      else found.push(...out.map(arrow));
    }
    return [...new Set(found)];
  }

  function ablate(selectors) {
    const removed = new Set(),
      cause = new Map();
    for (const text of selectors) {
      for (const e of data.edges) {
        if (text !== kindSelector(e.role) && text !== arrow(e)) continue;
        removed.add(e);
        const key = `${e.target} ${e.role}`;
        if (!cause.has(key)) cause.set(key, text);
      }
    }
    let left = data.edges.filter((e) => !removed.has(e));
    const needed = reached(left);
    const pruned = data.nodes.filter((n) => !needed.has(n.id)).map((n) => n.id);
    left = left.filter((e) => needed.has(e.source) && needed.has(e.target));
    const kept = new Set(left);
    const counts = countAt(needed, left);
    return {
      selectors,
      pruned,
      needed,
      kept,
      arrows: data.edges.filter((e) => !kept.has(e)),
      problems: [
        ...problemsOf(needed, left, cause),
        ...shapeless(needed, levelsOf(removed, selectors)),
      ],
      counts,
      parameters:
        sum([...counts.values()].map((each) => each.all)) +
        sum(data.tasks.map((t) => t.parameters)),
    };
  }

  /** The nodes that a task reads, now or at a later t; all of them if there are no tasks. */
  function reached(left) {
    const todo = data.tasks.flatMap((task) => task.at);
    if (!todo.length) return new Set(node.keys());
    const found = new Set(todo);
    const into = byTarget(left);
    while (todo.length) {
      for (const e of into.get(todo.pop()) || []) {
        if (!found.has(e.source)) {
          found.add(e.source);
          todo.push(e.source);
        }
      }
    }
    for (const n of data.nodes) if (n.id === "encoder.input") found.add(n.id);
    return found;
  }

  function byTarget(list) {
    const found = new Map();
    for (const e of list) found.set(e.target, [...(found.get(e.target) || []), e]);
    return found;
  }

  /** The parameters of every node that is left, with those of the arrows that enter it. */
  function countAt(needed, left) {
    const delayed = left.filter((e) => e.delay);
    const past = new Set(delayed.map((e) => e.source));
    const state = new Set(delayed.filter((e) => e.role === "state").map((e) => e.source));
    const into = byTarget(left);
    const keeper = keepers(needed, left);
    const counted = (each, size) => (!each.tensors || keeper.get(each.tensors) === each ? size : 0);
    const own = (n) =>
      counted(n, n.own) + (past.has(n.id) ? n.initial[0] : 0) + (state.has(n.id) ? n.initial[1] : 0);
    const entering = (n) => sum((into.get(n.id) || []).map((e) => counted(e, e.parameters)));
    return new Map(
      data.nodes
        .filter((n) => needed.has(n.id))
        .map((n) => [n.id, { own: own(n), all: own(n) + entering(n) }]),
    );
  }

  /** Shared tensors count once: for their owner, or for the first of those that are left. */
  function keepers(needed, left) {
    const found = new Map();
    for (const each of [...data.nodes.filter((n) => needed.has(n.id)), ...left]) {
      if (each.tensors && (each.owns || !found.has(each.tensors))) found.set(each.tensors, each);
    }
    return found;
  }

  /** Cells without an arrow that they need, reported together if one selector is the reason. */
  function problemsOf(needed, left, cause) {
    const found = new Map();
    const into = byTarget(left);
    const add = (key, message, id) => {
      if (!found.has(key)) found.set(key, { message, nodes: [] });
      found.get(key).nodes.push(id);
    };
    for (const n of data.nodes.filter((each) => needed.has(each.id))) {
      const roles = new Set((into.get(n.id) || []).map((e) => e.role));
      for (const role of n.needs.filter((each) => !roles.has(each))) {
        const key = `${cause.get(`${n.id} ${role}`)} ${role}`;
        add(key, `${n.cell} at ${n.id} cannot be without its ${role} arrow`, n.id);
      }
      if (!n.needs.length && !roles.size && n.cell !== "Input") {
        const lost = data.roles.find((role) => cause.has(`${n.id} ${role}`));
        add(`${cause.get(`${n.id} ${lost}`)} none`, `no arrow would lead to ${n.id}`, n.id);
      }
    }
    return [...found.values()];
  }

  /** The levels whose shape is known: it climbs from one encoder to the next. */
  function levelsOf(removed, selectors) {
    const cut = new Set([...removed].filter((e) => e.role === "encoder").map((e) => e.target));
    const known = new Set();
    data.levels.forEach(({ name, known: before, follows }, i) => {
      const id = `encoder.${name}`,
        below = data.levels[i - 1];
      const out = cut.has(id) || (!node.has(id) && selectors.includes(kindSelector("encoder")));
      if (before && (!below || !follows || (!out && known.has(below.name)))) known.add(name);
    });
    return known;
  }

  /** Decoders have the shape of their level, and ask for that of the row that they invert. */
  function shapeless(needed, known) {
    const found = new Map(); // copies of one row are reported together
    data.levels.forEach((level, at) => {
      const n = node.get(`decoder.${level.name}`);
      // The way down does not pass the level of the groups.
      const rows = data.levels.slice(at).filter((each) => each.decoded);
      const lost = rows.slice(0, 2).find((each) => !known.has(each.name));
      if (!n || !lost || !needed.has(n.id) || needed.has(`encoder.${lost.name}`)) return;
      const message = `${n.cell} at ${n.id} takes its shape from encoder.${lost.name}, which is gone`;
      const others = found.get(n.row)?.nodes || [];
      found.set(n.row || n.id, { message, nodes: [n.id, ...others] });
    });
    return [...found.values()];
  }

  return { ablate, arrow, selectorsOf };
}
