// The bar from the last renewal to the deadline, with what happened in between.

import { h, setText } from "./dom.js";
import { instant, length } from "./format.js";
import { now } from "./live.js";

export class Countdown {
  constructor() {
    this.fill = h("div", { class: "fill" });
    this.marks = h("div", { class: "marks" });
    this.bar = h("div", { class: "countdown", role: "img" }, this.fill, this.marks);
    this.text = h("p", { class: "countdown-text" });
    this.element = h("section", { "aria-labelledby": "deadline-title" },
      h("h2", { id: "deadline-title" }, "Deadline"), this.text, this.bar);
    this.span = null;
  }

  /** Shows the current deadline, or that of the last fence if the cluster is still fenced. */
  update(detail) {
    const { summary, lastFence, graceSeconds } = detail;
    const isOver = lastFence?.end != null;
    const deadline = instant(summary.deadline) ?? (isOver ? null : instant(lastFence?.deadline));
    this.element.hidden = deadline === null || !graceSeconds;
    if (this.element.hidden) return;
    const from = deadline - graceSeconds;
    const fenced = isOver ? null : instant(lastFence?.fencedAt);
    this.span = { from, deadline, fenced };
    const marks = [["last renewal", from], ["deadline", deadline]];
    if (!isOver && lastFence) marks.splice(1, 0, ["trip", instant(lastFence.start)]);
    if (fenced !== null) marks.splice(2, 0, ["fenced", fenced]);
    this.marks.replaceChildren(
      ...marks.map(([text, at]) => {
        const mark = h("span", { class: "mark", "data-mark": text }, h("span", {}, text));
        mark.style.left = `${this.place(at)}%`;
        return mark;
      }),
    );
    this.tick();
  }

  place(at) {
    const { from, deadline } = this.span;
    return Math.min(100, Math.max(0, ((at - from) / (deadline - from)) * 100));
  }

  tick() {
    if (this.element.hidden || this.span === null) return;
    const { deadline, fenced } = this.span;
    const present = now();
    this.fill.style.width = `${this.place(fenced ?? present)}%`;
    this.bar.dataset.state = fenced !== null && fenced <= deadline ? "safe" : present > deadline ? "late" : "open";
    const left = deadline - present;
    let text = left > 0 ? `The first node can turn Unknown in ${length(left)}.` : `The deadline passed ${length(left)} ago.`;
    if (fenced !== null) {
      const spare = deadline - fenced;
      text = spare >= 0
        ? `Fenced ${length(spare)} before the deadline. The deadline is harmless now: the controllers are stopped.`
        : `Fenced ${length(spare)} after the deadline: nodes may have turned Unknown.`;
    }
    setText(this.text, text);
    this.bar.setAttribute("aria-label", text);
  }
}
