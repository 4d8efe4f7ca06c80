// A new link is copied with a press; without this it is selected and copied by hand.
"use strict";
for (const button of document.querySelectorAll("[data-copy]")) {
  const field = document.getElementById(button.dataset.copy);
  field.addEventListener("focus", () => field.select());
  if (navigator.clipboard) { // which browsers have on https and on this machine alone
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(field.value);
      button.textContent = "Copied";
    });
  }
}
