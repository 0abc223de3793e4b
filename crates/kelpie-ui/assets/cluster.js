// One cluster: what is going on, what to do, the deadline, its nodes, its controllers, its story.

import { condition } from "./conditions.js";
import { Countdown } from "./countdown.js";
import { command, h, setText } from "./dom.js";
import { ago, clock, count, date, instant, length, margin } from "./format.js";
import { freshness, now } from "./live.js";

/** The page asks for the details this often, in milliseconds, while it is in view. */
const REFRESH = 2000;

const KINDS = {
  trip: "Trip", hold: "Hold", call: "Call", fence: "Fenced", failure: "Failure", undo: "Undone",
  release: "Release", restore: "Restored", trouble: "Trouble", recovery: "Recovered", role: "Leadership",
};
const SHAPES = {
  trip: "triangle", hold: "ring", call: "dash", fence: "square", failure: "cross", undo: "cross",
  release: "half", restore: "dot", trouble: "triangle", recovery: "dot", role: "ring",
};
const NODE_STATES = {
  expired: ["Expired", "cross", "critical"],
  silent: ["Silent", "triangle", "warning"],
  notCounted: ["Not counted", "bars", "notice"],
  unknown: ["Unknown", "ring", "notice"],
  renewing: ["Renewing", "dot", "fine"],
};

export class ClusterPage {
  constructor(name) {
    this.name = name;
    this.title = h("h1", {}, name);
    this.state = h("p", { class: "state big" });
    this.sentence = h("p", { class: "sentence" });
    this.meaning = h("p", {});
    this.advice = h("ol", { class: "advice" });
    this.countdown = new Countdown();
    this.facts = h("dl", { class: "facts" });
    this.problems = h("section", { "aria-label": "Problems", class: "problems" });
    this.targets = h("section", { "aria-labelledby": "targets-title" });
    this.nodes = h("section", { "aria-labelledby": "nodes-title" });
    this.story = h("section", { "aria-labelledby": "story-title" });
    this.raw = h("pre", { tabIndex: 0 });
    this.rawBox = h("details", { ontoggle: () => this.drawRaw() }, h("summary", {}, "Raw state (JSON)"), this.raw);
    this.element = h("div", { class: "cluster" },
      h("p", {}, h("a", { href: "#/" }, "← All clusters")),
      this.title, this.state, this.sentence, this.problems,
      h("section", { "aria-labelledby": "do-title" }, h("h2", { id: "do-title" }, "What it means, and what to do"), this.meaning, this.advice),
      this.countdown.element, this.facts, this.targets, this.nodes, this.story, this.rawBox);
    this.response = null;
    this.isAsking = false;
    this.timer = setInterval(() => document.hidden || this.ask(), REFRESH);
    this.ask();
  }

  close() {
    clearInterval(this.timer);
  }

  update(ids, isWhole) {
    if (isWhole || ids.has(this.name)) this.ask();
  }

  async ask() {
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      const response = await fetch(`/debug/state?cluster=${encodeURIComponent(this.name)}`);
      const body = await response.json();
      if (response.ok) this.draw(body);
      else this.drawAbsent(body);
    } catch {
      // The prober is away. The header says how old the page is.
    } finally {
      this.isAsking = false;
    }
  }

  drawAbsent({ reason, near }) {
    setText(this.sentence, reason ? `It is not watched: ${reason}.` : "The prober does not know this cluster.");
    const links = (near ?? []).map((name) => h("li", {}, h("a", { href: `#/cluster/${encodeURIComponent(name)}` }, name)));
    this.advice.replaceChildren(...links);
    setText(this.meaning, links.length ? "Did you mean one of these?" : "");
  }

  draw(body) {
    const view = body.clusters[this.name];
    this.response = body;
    const { detail } = view;
    if (!detail) return;
    this.detail = detail;
    const { text, severity, shape } = condition(detail.summary.condition);
    this.state.dataset.severity = severity;
    if (this.shownState !== text) {
      this.shownState = text;
      const icon = h("span", { class: "shape", "data-shape": shape });
      icon.setAttribute("aria-hidden", "true");
      this.since = h("span", { class: "since" });
      this.state.replaceChildren(icon, h("strong", {}, text), " ", this.since);
    }
    setText(this.sentence, detail.summary.sentence);
    setText(this.meaning, detail.guidance.meaning);
    this.drawAdvice(detail.guidance.advice);
    this.drawProblems(view.problems);
    this.countdown.update(detail);
    this.drawFacts(detail, view);
    this.drawTargets(view.targets);
    this.drawNodes(detail.nodes);
    this.drawStory(detail.history);
    this.drawRaw();
    this.tick();
  }

  drawAdvice(advice) {
    // Drawn anew only if it differs: a button that is being pressed must stay.
    const key = JSON.stringify(advice);
    if (this.shownAdvice === key) return;
    this.shownAdvice = key;
    this.advice.replaceChildren(
      ...advice.map(({ text, command: line }) => h("li", {}, h("span", {}, text), line ? command(line) : null)),
    );
  }

  drawProblems(problems) {
    this.problems.hidden = problems.length === 0;
    this.problems.replaceChildren(h("h2", {}, "Problems"), h("ul", {}, ...problems.map((text) => h("li", {}, text))));
  }

  drawFacts(detail, view) {
    const { summary, lastFence, graceSeconds } = detail;
    const facts = [
      ["Nodes", `${summary.nodes} count, ${summary.silent} silent, ${summary.notCounted} not counted`],
      ["Grace period", graceSeconds ? length(graceSeconds) : "–"],
    ];
    if (lastFence) {
      const [start, fenced, end] = [instant(lastFence.start), instant(lastFence.fencedAt), instant(lastFence.end)];
      facts.push(["Last fence", `${date(start)}${fenced === null ? ", not made" : `, made ${length(fenced - start)} after the trip`}`]);
      if (lastFence.marginSeconds !== null) facts.push(["Margin", margin(lastFence.marginSeconds)]);
      if (fenced !== null) facts.push(["Lasted", `${length((end ?? now()) - fenced)}${end === null ? " so far" : ""}`]);
    }
    if (view.shard) facts.push(["Shard", view.shard]);
    this.facts.replaceChildren(...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  }

  drawTargets(targets) {
    const rows = targets.map(({ resource, observed }) => {
      const object = observed?.present;
      const name = `${resource.kind} ${resource.name}`;
      if (!object) return [name, "–", observed === "missing" ? "does not exist" : "not read yet", "–", ""];
      const recorded = object.recorded?.value;
      const notes = [object.marked ? "stopped by the watchdog" : null, object.ignored ? "ignored, as its annotation asks" : null];
      const before = object.marked ? (recorded ?? "not recorded") : object.setting;
      return [name, before, object.setting, object.effective, notes.filter(Boolean).join(", ")];
    });
    this.targets.hidden = rows.length === 0;
    this.targets.replaceChildren(
      h("h2", { id: "targets-title" }, "Controllers"),
      table("targets-title", ["Controller", "Replicas before", "Now", "Ready", ""], rows.map((row) => h("tr", {}, ...cells(row)))),
    );
  }

  drawNodes(nodes) {
    this.nodes.hidden = !nodes;
    if (!nodes) return;
    const at = instant(nodes.at);
    const rows = nodes.rows.map((node) => {
      const [text, shape, severity] = NODE_STATES[node.state] ?? NODE_STATES.unknown;
      const icon = h("span", { class: "shape", "data-shape": shape });
      icon.setAttribute("aria-hidden", "true");
      const renewed = instant(node.renewed);
      return h("tr", { "data-severity": severity },
        h("th", { scope: "row" }, node.name),
        h("td", { class: "state" }, icon, text),
        h("td", { class: "number" }, renewed === null ? "never" : length(at - renewed)),
        h("td", {}, node.zone ?? "–"), h("td", {}, node.pool ?? "–"), h("td", {}, node.machine ?? "–"),
        h("td", {}, node.notCounted ?? ""));
    });
    const omitted = nodes.omitted ? h("p", {}, `and ${count(nodes.omitted, "more node", "more nodes")}`) : null;
    this.nodes.replaceChildren(
      h("h2", { id: "nodes-title" }, count(nodes.rows.length + nodes.omitted, "node", "nodes")),
      table("nodes-title", ["Node", "Lease", "Renewed before", "Zone", "Pool", "Machine", "Not counted because"], rows),
      ...(omitted ? [omitted] : []),
    );
  }

  drawStory(history) {
    const last = history.at(-1);
    const key = last ? `${history.length} ${last.at} ${last.count}` : "none";
    if (this.shownStory === key) return;
    this.shownStory = key;
    const items = history.toReversed().map(({ at, kind, text, count: times, lastAt }) => {
      const icon = h("span", { class: "shape", "data-shape": SHAPES[kind] ?? "ring" });
      icon.setAttribute("aria-hidden", "true");
      const repeated = times > 1 ? ` (${times} times, last at ${clock(instant(lastAt))})` : "";
      return h("li", { "data-kind": kind },
        h("time", { dateTime: at, title: date(instant(at)) }, clock(instant(at))),
        icon, h("strong", {}, KINDS[kind] ?? kind), h("span", {}, `${text}${repeated}`));
    });
    const empty = h("p", {}, "Nothing has happened since this replica began to watch the cluster.");
    this.story.replaceChildren(h("h2", { id: "story-title" }, "What happened, the latest first"),
      items.length ? h("ol", { class: "story" }, ...items) : empty);
  }

  drawRaw() {
    if (this.rawBox.open) setText(this.raw, JSON.stringify(this.response, null, 2));
  }

  tick() {
    if (!this.detail) return;
    setText(this.since, ago(now(), instant(this.detail.summary.since)));
    // A countdown on old facts would mislead.
    if (freshness().state === "live") this.countdown.tick();
  }
}

function cells(row) {
  return row.map((value, index) => h(index === 0 ? "th" : "td", index === 0 ? { scope: "row" } : {}, String(value)));
}

function table(label, heads, rows) {
  return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-labelledby": label },
    h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((text) => (text ? h("th", { scope: "col" }, text) : h("td", {}))))), h("tbody", {}, ...rows)));
}
