// The conditions of a cluster in the order of their urgency, as kelpie-core has them: the name in
// JSON, the text, the severity, and the shape by which it is told apart without colour.

const ROWS = [
  ["unfenced", "Not fenced", "critical", "cross"],
  ["restoreStuck", "Restore stuck", "critical", "cross"],
  ["unprotected", "Unprotected", "warning", "diamond"],
  ["deadlineImminent", "Deadline imminent", "warning", "triangle"],
  ["fenced", "Fenced", "warning", "square"],
  ["wouldFence", "Would fence", "warning", "square"],
  ["blind", "Blind", "warning", "ring"],
  ["trouble", "Trouble", "warning", "triangle"],
  ["restoring", "Restoring", "notice", "half"],
  ["undecided", "Undecided", "notice", "ring"],
  ["paused", "Paused", "notice", "bars"],
  ["starting", "Starting", "notice", "half"],
  ["healthy", "Healthy", "fine", "dot"],
];

const BY_NAME = new Map(
  ROWS.map(([name, text, severity, shape], rank) => [name, { name, text, severity, shape, rank }]),
);
const UNKNOWN = { text: "Unknown", severity: "notice", shape: "ring", rank: ROWS.length };

export const CONDITIONS = [...BY_NAME.values()];

export function condition(name) {
  return BY_NAME.get(name) ?? { name, ...UNKNOWN };
}

export function needsYou(name) {
  const { severity } = condition(name);
  return severity === "critical" || severity === "warning";
}

/** Most urgent first, then the longest, then by name. */
export function byUrgency(a, b) {
  return (
    condition(a.condition).rank - condition(b.condition).rank ||
    (a.since < b.since ? -1 : a.since > b.since ? 1 : 0) ||
    (a.id < b.id ? -1 : 1)
  );
}
