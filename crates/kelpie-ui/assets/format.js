// Times and counts as people read them. Instants are those of the prober's clock.

export function length(seconds) {
  const value = Math.abs(seconds);
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 90) return `${Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86400)} days`;
}

/** An instant in seconds since the epoch; `null` for none, "never" and "the beginning of time". */
export function instant(text) {
  const millis = text ? Date.parse(text) : NaN;
  return Number.isNaN(millis) ? null : millis / 1000;
}

export function ago(now, then) {
  if (then === null) return "since the start";
  return now >= then ? `${length(now - then)} ago` : `in ${length(then - now)}`;
}

export function clock(seconds) {
  return seconds === null ? "–" : new Date(seconds * 1000).toISOString().slice(11, 19);
}

export function date(seconds) {
  return seconds === null ? "–" : `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export function count(number, one, many) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function margin(seconds) {
  if (seconds === undefined || seconds === null) return "";
  return seconds < 0 ? `${length(seconds)} too late` : `${length(seconds)} to spare`;
}
