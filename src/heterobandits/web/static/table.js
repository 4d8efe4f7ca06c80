// A table of visits: Enter and the arrows go from row to row, so that a pile of paper is typed without the mouse.
"use strict";
(() => {
  const form = document.querySelector("form[data-table]");

  function moved(field, by) {
    const column = [...form.querySelectorAll(`input.cell[name=${field.name}]`)];
    const next = column[column.indexOf(field) + by];
    if (next) {
      next.focus();
      next.select();
    } else if (by > 0) {
      form.querySelector("button:not([type=button])").focus();
    }
  }

  form.addEventListener("keydown", (event) => {
    const field = event.target;
    if (!field.matches("input.cell") || event.isComposing) return;
    const by = { Enter: 1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    moved(field, event.key === "Enter" && event.shiftKey ? -1 : by);
  });
})();
