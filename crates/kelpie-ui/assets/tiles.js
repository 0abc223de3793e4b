// One tile for each cluster, in the order of their names, so that a cluster keeps its place.

import { condition } from "./conditions.js";
import { h } from "./dom.js";
import { fleet } from "./live.js";

/** Tiles are grouped, so that the browser lays out only the groups in view. */
const GROUP = 120;

export class Tiles {
  constructor() {
    this.element = h("div", { class: "tiles" });
    this.tiles = new Map();
    this.filter = "";
  }

  /** Draws the tiles of these clusters, or all of them. */
  update(ids, isWhole) {
    if (isWhole) this.rebuild();
    else for (const id of ids) this.draw(id);
  }

  rebuild() {
    const wanted = this.filter.toLowerCase();
    const names = [...fleet.clusters.keys()].filter((name) => name.toLowerCase().includes(wanted));
    names.sort();
    const tiles = new Map();
    const groups = [];
    for (const [index, name] of names.entries()) {
      const tile = this.tiles.get(name) ?? makeTile(name);
      tiles.set(name, tile);
      if (index % GROUP === 0) groups.push(h("ul", { class: "group" }));
      groups.at(-1).append(tile.item);
    }
    this.tiles = tiles;
    this.element.replaceChildren(...groups);
    if (names.length === 0) this.element.append(h("p", { class: "empty" }, "No cluster matches."));
    for (const name of names) this.draw(name);
  }

  draw(name) {
    const tile = this.tiles.get(name);
    const cluster = fleet.clusters.get(name);
    if (!tile || !cluster || tile.cluster === cluster) return;
    const { text, severity, shape } = condition(cluster.condition);
    if (tile.condition !== cluster.condition) {
      tile.link.dataset.severity = severity;
      tile.shape.dataset.shape = shape;
      tile.text.textContent = text;
      tile.condition = cluster.condition;
    }
    tile.link.title = cluster.sentence;
    tile.cluster = cluster;
  }

  search(text) {
    this.filter = text.trim();
    this.rebuild();
  }
}

function makeTile(name) {
  const shape = h("span", { class: "shape" });
  shape.setAttribute("aria-hidden", "true");
  const text = h("span", { class: "condition" });
  const link = h(
    "a",
    { class: "tile", href: `#/cluster/${encodeURIComponent(name)}` },
    shape,
    h("span", { class: "name" }, name),
    text,
  );
  return { item: h("li", {}, link), link, shape, text, condition: null, cluster: null };
}
