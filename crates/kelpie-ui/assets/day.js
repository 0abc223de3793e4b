// The last 24 hours: how many clusters were fenced or in trouble at the same time.

import { h, svg } from "./dom.js";
import { clock, count, instant } from "./format.js";

const WIDTH = 288;
const HEIGHT = 60;

export function drawDay(day) {
  const buckets = day.buckets;
  const worst = Math.max(1, ...buckets.map((bucket) => bucket.fenced + bucket.troubled));
  const fences = buckets.reduce((sum, bucket) => sum + bucket.fences, 0);
  const fenced = Math.max(0, ...buckets.map((bucket) => bucket.fenced));
  const start = instant(day.start);
  const end = start + buckets.length * day.bucketSeconds;
  const text =
    fences === 0
      ? "No fence in this time."
      : `${count(fences, "fence", "fences")}, at most ${count(fenced, "cluster", "clusters")} at the same time.`;
  const chart = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `Fenced and troubled clusters. ${text}`,
  });
  const first = WIDTH - buckets.length;
  for (const [index, bucket] of buckets.entries()) {
    const place = { x: first + index, width: 1 };
    const fencedHeight = (bucket.fenced / worst) * (HEIGHT - 4);
    const troubledHeight = (bucket.troubled / worst) * (HEIGHT - 4);
    if (bucket.fenced > 0) {
      chart.append(
        svg("rect", { ...place, y: HEIGHT - fencedHeight, height: fencedHeight, class: "bar-fenced" }),
      );
    }
    if (bucket.troubled > 0) {
      const y = HEIGHT - fencedHeight - troubledHeight;
      chart.append(svg("rect", { ...place, y, height: troubledHeight, class: "bar-troubled" }));
    }
  }
  return h(
    "figure",
    { class: "day" },
    chart,
    h(
      "figcaption",
      {},
      h("span", {}, buckets.length < WIDTH ? `from ${clock(start)} UTC` : "24 h ago"),
      h(
        "span",
        { class: "legend" },
        h("span", { class: "key key-fenced" }),
        "fenced ",
        h("span", { class: "key key-troubled" }),
        `other trouble, up to ${worst} at once. `,
        text,
      ),
      h("span", {}, `${clock(end)} UTC`),
    ),
  );
}
