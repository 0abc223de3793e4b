// The fleet as the prober last sent it. It is kept up to date by server-sent events.

import { instant } from "./format.js";

/** Without an event for this long, in milliseconds, what is shown may be out of date. */
const STALE_AFTER = 8000;
/** A connection that the browser gave up is opened again after this time. */
const RETRY = 2000;

export const fleet = {
  replica: null,
  summary: null,
  sharedCauses: [],
  day: null,
  clusters: new Map(),
};

let source = null;
let lastEvent = null;
/** The difference between the prober's clock and ours, in seconds. */
let offset = 0;
let listeners = [];
let changed = new Set();
let isWhole = false;
let isScheduled = false;

/** Calls `listener(changedIds, isWhole)` after changes, at most once a frame. */
export function listen(listener) {
  listeners.push(listener);
}

/** The present instant by the prober's clock, in seconds. */
export function now() {
  return Date.now() / 1000 + offset;
}

/** How fresh the fleet is: its state, and the seconds since the last event. */
export function freshness() {
  if (lastEvent === null) return { state: "connecting", age: 0 };
  const age = Date.now() - lastEvent;
  const isOpen = source?.readyState === EventSource.OPEN;
  return { state: isOpen && age < STALE_AFTER ? "live" : "stale", age: age / 1000 };
}

export function connect() {
  source?.close();
  source = new EventSource("events");
  source.addEventListener("fleet", (event) => takeWhole(JSON.parse(event.data)));
  source.addEventListener("change", (event) => takeChange(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    // The browser reconnects by itself, except after an HTTP error.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY);
  });
}

function takeShared(message) {
  lastEvent = Date.now();
  fleet.replica = message.replica;
  fleet.summary = message.fleet;
  fleet.sharedCauses = message.sharedCauses;
  fleet.day = message.day ?? fleet.day;
  offset = (instant(message.replica.at) ?? Date.now() / 1000) - Date.now() / 1000;
}

function takeWhole(message) {
  takeShared(message);
  fleet.clusters = new Map(message.clusters.map((cluster) => [cluster.id, cluster]));
  isWhole = true;
  schedule();
}

function takeChange(message) {
  takeShared(message);
  for (const cluster of message.changed) {
    isWhole ||= !fleet.clusters.has(cluster.id);
    fleet.clusters.set(cluster.id, cluster);
    changed.add(cluster.id);
  }
  for (const id of message.removed) {
    isWhole = fleet.clusters.delete(id) || isWhole;
  }
  schedule();
}

function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  // A hidden page has no frames; it is drawn again when somebody looks.
  const draw = document.hidden ? (run) => setTimeout(run, 250) : requestAnimationFrame;
  draw(() => {
    isScheduled = false;
    const [ids, whole] = [changed, isWhole];
    [changed, isWhole] = [new Set(), false];
    const start = performance.now();
    for (const listener of listeners) listener(ids, whole);
    performance.measure("kelpie-update", { start, end: performance.now() });
  });
}
