// The fleet: who needs you, what they share, the last day, and a tile for each cluster.

import { byUrgency, condition, needsYou } from "./conditions.js";
import { drawDay } from "./day.js";
import { h, setText } from "./dom.js";
import { ago, count, instant, length, margin } from "./format.js";
import { fleet, now } from "./live.js";
import { Tiles } from "./tiles.js";

/** More rows than this help nobody; the tiles show all clusters. */
const MAX_ROWS = 50;

const KINDS = { apiServer: "API server address", zone: "zone", region: "region", provider: "provider" };

export class FleetPage {
  constructor() {
    this.tiles = new Tiles();
    this.rows = h("tbody", {});
    this.more = h("p", { class: "more" });
    this.needing = h(
      "section",
      { class: "needs", "aria-labelledby": "needs-title" },
      h("h2", { id: "needs-title" }, "Needs you"),
      h(
        "div",
        { class: "scroll", tabIndex: 0, role: "region", "aria-labelledby": "needs-title" },
        h(
          "table",
          {},
          h("thead", {}, h("tr", {}, ...["Condition", "Cluster", "Since", "What is going on", "Deadline"].map(
            (text) => h("th", { scope: "col" }, text),
          ))),
          this.rows,
        ),
      ),
      this.more,
    );
    this.calm = h("p", { class: "calm" });
    this.causes = h("section", { class: "causes", "aria-labelledby": "causes-title" });
    this.day = h("section", { class: "history", "aria-labelledby": "day-title" });
    this.shownDay = null;
    this.find = h("input", {
      type: "search",
      id: "find",
      placeholder: "Find a cluster",
      "aria-label": "Find a cluster by its name",
      oninput: () => this.tiles.search(this.find.value),
    });
    this.clusters = h("h2", { id: "clusters-title" }, "Clusters");
    this.element = h(
      "div",
      {},
      this.calm,
      this.needing,
      this.causes,
      this.day,
      h(
        "section",
        { "aria-labelledby": "clusters-title" },
        h("div", { class: "bar" }, this.clusters, this.find),
        this.tiles.element,
      ),
    );
    this.update(new Set(), true);
  }

  update(ids, isWhole) {
    if (!fleet.summary) return;
    this.tiles.update(ids, isWhole);
    this.drawNeeding();
    this.drawCauses();
    if (this.shownDay !== fleet.day) {
      this.shownDay = fleet.day;
      this.day.replaceChildren(h("h2", { id: "day-title" }, "Last 24 hours"), drawDay(fleet.day));
    }
    setText(this.clusters, count(fleet.summary.clusters, "cluster", "clusters"));
  }

  drawNeeding() {
    const needing = [...fleet.clusters.values()].filter((cluster) => needsYou(cluster.condition));
    needing.sort(byUrgency);
    this.needing.hidden = needing.length === 0;
    this.calm.hidden = needing.length > 0;
    const { clusters, notWatched } = fleet.summary;
    const asleep = notWatched ? ` ${count(notWatched, "more is", "more are")} known and not watched.` : "";
    setText(this.calm, clusters === 0 ? `No cluster is watched yet.${asleep}` : `No cluster needs you.${asleep}`);
    const rows = needing.slice(0, MAX_ROWS).map(drawRow);
    this.rows.replaceChildren(...rows);
    const hidden = needing.length - rows.length;
    setText(this.more, hidden > 0 ? `and ${count(hidden, "more cluster", "more clusters")}, see the tiles.` : "");
    this.tick();
  }

  drawCauses() {
    const causes = fleet.sharedCauses;
    this.causes.hidden = causes.length === 0;
    if (causes.length === 0) return this.causes.replaceChildren();
    const lines = causes.map((cause) =>
      h(
        "li",
        {},
        `${sharing(cause)} affected clusters share the ${KINDS[cause.kind] ?? cause.kind} `,
        h("strong", {}, cause.name),
        ".",
      ),
    );
    this.causes.replaceChildren(h("h2", { id: "causes-title" }, "Shared cause?"), h("ul", {}, ...lines));
  }

  /** Draws what changes with the time. */
  tick() {
    const present = now();
    for (const cell of this.rows.querySelectorAll("[data-since]")) {
      setText(cell, ago(present, Number(cell.dataset.since)));
    }
    for (const cell of this.rows.querySelectorAll("[data-deadline]")) {
      const left = Number(cell.dataset.deadline) - present;
      setText(cell, left > 0 ? `in ${length(left)}` : cell.dataset.passed);
    }
  }
}

function sharing({ count: some, affected }) {
  if (some < affected) return `${some} of ${affected}`;
  return affected === 2 ? "Both" : `All ${affected}`;
}

function drawRow(cluster) {
  const { text, severity, shape } = condition(cluster.condition);
  const since = instant(cluster.since);
  const deadline = instant(cluster.deadline);
  const isSafe = cluster.condition === "fenced" && !(cluster.marginSeconds < 0);
  const passed = isSafe ? margin(cluster.marginSeconds) || "passed, harmless" : "passed";
  const icon = h("span", { class: "shape", "data-shape": shape });
  icon.setAttribute("aria-hidden", "true");
  const deadlineCell = h("td", { class: "number" });
  if (isSafe && cluster.marginSeconds !== undefined) deadlineCell.textContent = margin(cluster.marginSeconds);
  else if (deadline !== null) {
    deadlineCell.dataset.deadline = deadline;
    deadlineCell.dataset.passed = passed;
  }
  return h(
    "tr",
    { "data-severity": severity },
    h("td", { class: "state" }, icon, text),
    h("th", { scope: "row" }, h("a", { href: `#/cluster/${encodeURIComponent(cluster.id)}` }, cluster.id)),
    h("td", { class: "number", "data-since": since ?? undefined }, since === null ? "the start" : ""),
    h("td", {}, cluster.sentence),
    deadlineCell,
  );
}
