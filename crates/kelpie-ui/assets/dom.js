// Elements and text. Nothing here takes HTML, so nothing that comes from a cluster can become code.

/** Creates an element. `props` are properties; `aria-*`, `role` and `data-*` are attributes. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** Creates an SVG element with these attributes. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Sets the text of an element if it is another. Screen readers announce each change. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A command with a button that copies it. */
export function command(text) {
  const button = h("button", { type: "button", class: "copy", "aria-label": `Copy: ${text}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Without the right to write to the clipboard, the command is selected instead.
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return h("span", { class: "command" }, h("code", {}, text), button);
}
