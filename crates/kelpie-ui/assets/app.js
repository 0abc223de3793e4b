// Starts the page: the header, the banners of a pause and of a standby, and which page is shown.

import { ClusterPage } from "./cluster.js";
import { command, h, setText } from "./dom.js";
import { FleetPage } from "./fleet.js";
import { count, date, instant, length } from "./format.js";
import { connect, fleet, freshness, listen } from "./live.js";

const main = document.getElementById("main");
const summary = document.getElementById("summary");
const live = document.getElementById("live");
const liveText = document.getElementById("live-text");
const banner = document.getElementById("banner");
const pauseBanner = document.getElementById("pause");
const replica = document.getElementById("replica");

const fleetPage = new FleetPage();
let page = null;
let shownBanner = null;

function route() {
  const [, name] = location.hash.match(/^#\/cluster\/(.+)$/) ?? [];
  page?.close?.();
  page = name ? new ClusterPage(decodeURIComponent(name)) : fleetPage;
  if (page === fleetPage) page.update(new Set(), true);
  main.replaceChildren(page.element);
  scrollTo(0, 0);
  drawTitle();
}

function drawTitle() {
  const needing = fleet.summary?.needsYou ?? 0;
  const name = page === fleetPage ? "Kelpie" : `${page.name} – Kelpie`;
  document.title = needing ? `(${needing}) ${name}` : name;
}

function drawHeader() {
  const { clusters, needsYou, counts } = fleet.summary;
  const fenced = counts.fenced ? `, ${counts.fenced} fenced` : "";
  const text = needsYou
    ? `${needsYou} of ${count(clusters, "cluster", "clusters")} ${needsYou === 1 ? "needs" : "need"} you${fenced}`
    : `All is well: ${count(clusters, "cluster", "clusters")}${fenced}`;
  setText(summary, text);
  summary.dataset.state = needsYou ? "needs" : "well";
  const { identity, version, part, shard, pause } = fleet.replica;
  const parts = { leader: "the leader", standby: "a standby", dryRun: "a dry run" };
  setText(replica, `Replica ${identity}, ${parts[part] ?? part}${shard ? `, shard ${shard}` : ""}, Kelpie ${version}.`);
  drawBanner(part, fleet.replica.leader);
  drawPause(pause);
  drawTitle();
}

function drawPause({ state, until, reason, value }) {
  const end = until ? `until ${date(instant(until))}` : "until `kelpie resume`";
  const texts = {
    on: `Paused ${end}: nothing new is fenced, so a partition costs nodes.${reason ? ` Reason: ${reason}` : ""}`,
    unreadable: `Not paused: the annotation has “${value}”, which is neither an instant nor “true”.`,
  };
  pauseBanner.hidden = !texts[state];
  setText(pauseBanner, texts[state] ?? "");
}

function drawBanner(part, leader) {
  const key = `${part} ${leader}`;
  if (shownBanner === key) return;
  shownBanner = key;
  banner.hidden = part === "leader";
  if (part === "dryRun") {
    banner.replaceChildren("This is a dry run: the replica decides and reports, and writes nothing.");
  } else if (part === "standby") {
    const pod = leader?.replace(/_[^_]*$/, "");
    banner.replaceChildren(
      h("span", {}, leader ? `This replica is a standby. The leader is ${leader}: ask it for what was done last. ` : "This replica is a standby, and no leader is known. "),
      ...(leader ? [command(`kubectl -n garden port-forward pod/${pod} 9643`)] : []),
    );
  }
}

function tick() {
  const { state, age } = freshness();
  live.dataset.state = state;
  document.body.dataset.live = state;
  const texts = { live: "live", connecting: "connecting", stale: `stale: last heard ${length(age)} ago, reconnecting` };
  setText(liveText, texts[state]);
  page?.tick?.();
}

listen((ids, isWhole) => {
  drawHeader();
  page.update(ids, isWhole);
});

addEventListener("hashchange", () => {
  route();
  main.focus({ preventScroll: true });
});
addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    if (page !== fleetPage) location.hash = "#/";
    setTimeout(() => fleetPage.find.focus());
  } else if (event.key === "Escape") {
    if (isTyping && event.target.value) {
      event.target.value = "";
      fleetPage.tiles.search("");
    } else if (page !== fleetPage) location.hash = "#/";
  }
});

route();
connect();
setInterval(tick, 250);
