// The element with the focus: its text, and the reason why a person would not see that it has the focus.
() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  const within = box.bottom > 0 && box.top < window.innerHeight && box.right > 0 && box.left < window.innerWidth;
  let fault = "";
  if (!outlined && style.boxShadow === "none") fault = "has no outline";
  if (!within || box.width < 1 || box.height < 1) fault = "is outside of the window";
  window.visited ??= new Set();
  const seen = window.visited.has(element);
  window.visited.add(element);
  const name = `<${element.localName}> ${(element.getAttribute("aria-label") ?? element.textContent).trim().slice(0, 40)}`;
  return {name, fault, seen};
}
