// Visible elements for the keyboard that `focus.js` has not seen.
() => [...document.querySelectorAll("a[href], summary, button, input, [tabindex]")]
  .filter((element) => element.checkVisibility({visibilityProperty: true}) && element.tabIndex >= 0 && !element.disabled)
  .filter((element) => element.getBoundingClientRect().width > 0 && !window.visited?.has(element))
  .map((element) => `<${element.localName}> ${element.textContent.trim().slice(0, 40)}`)
