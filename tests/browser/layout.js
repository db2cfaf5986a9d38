// Faults of a page's layout, as text: wider than the window, text outside of its box, texts over each other.
() => {
  const faults = [];
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) {
    faults.push(`the page is ${root.scrollWidth} px wide in a window of ${window.innerWidth}`);
  }
  const shown = (element) => element.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const quoted = (text) => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 40));
  const scrolls = (style) => /auto|scroll/.test(style.overflowX) || /auto|scroll/.test(style.overflowY);
  const inside = (element, selector) => element.closest(selector) !== null;

  // Boxes of each line of each visible text, up to the first ancestor that scrolls or cuts with dots.
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const owner = node.parentElement;
    if (!node.data.trim() || inside(owner, "script, style, noscript, title") || !shown(owner)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const lines = [...range.getClientRects()].filter((box) => box.width > 1 && box.height > 1);
    let floats = false;
    let scrolled = false;
    for (let at = owner; at && at !== root; at = at.parentElement) {
      const style = getComputedStyle(at);
      floats ||= style.position === "fixed" || style.position === "sticky";
      if (scrolled || at === document.body) continue;
      if (scrolls(style) || style.textOverflow === "ellipsis") { scrolled = true; continue; }
      if (style.display === "contents" || style.display === "inline" || at instanceof SVGGElement) continue;
      if (at instanceof SVGElement && !(at instanceof SVGSVGElement)) continue;
      const box = at.getBoundingClientRect();
      const cuts = style.overflowX !== "visible";
      for (const line of lines) {
        const beyond = Math.max(box.left - line.left, line.right - box.right);
        const below = cuts || at instanceof SVGSVGElement ? Math.max(box.top - line.top, line.bottom - box.bottom) : 0;
        if (Math.max(beyond, below) > 2.5) {
          faults.push(`${quoted(node.data)} leaves its <${at.localName} class="${at.getAttribute("class") ?? ""}">`);
          break;
        }
      }
    }
    if (!floats && !scrolled) for (const line of lines) boxes.push({line, node});
    if (scrolled && owner instanceof SVGElement) for (const line of lines) boxes.push({line, node});
  }

  boxes.sort((one, other) => one.line.top - other.line.top);
  for (let first = 0; first < boxes.length; first += 1) {
    const {line, node} = boxes[first];
    for (let second = first + 1; second < boxes.length && boxes[second].line.top < line.bottom - 2; second += 1) {
      const other = boxes[second];
      const width = Math.min(line.right, other.line.right) - Math.max(line.left, other.line.left);
      const height = Math.min(line.bottom, other.line.bottom) - other.line.top;
      // Boxes of lines hold the space between lines: a third of the lower one is text over text.
      if (width > 2 && height > other.line.height / 3 && node !== other.node) {
        faults.push(`${quoted(node.data)} and ${quoted(other.node.data)} overlap`);
      }
    }
  }
  return [...new Set(faults)].slice(0, 20);
}
