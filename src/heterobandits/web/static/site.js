// What pages do by themselves: times in the reader's zone, a wall that shows what is new, forms that are looked at while one changes them.
"use strict";

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.valueOf())) {
      time.title = time.textContent.trim();
      const day = "day" in time.dataset;
      time.textContent = moment.toLocaleString([], day ? { dateStyle: "medium", timeZone: "UTC" } : { dateStyle: "medium", timeStyle: "short" });
    }
  }
}

async function fetched(address, signal, body) {
  const answer = await fetch(address, { method: body ? "POST" : "GET", body, cache: "no-store", signal });
  if (!answer.ok && answer.status !== 422) throw new Error(String(answer.status));
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

function replaced(selector, other) {
  const here = document.querySelector(selector);
  const there = other.querySelector(selector);
  if (here && there) {
    here.replaceWith(document.adoptNode(there));
    localTimes(document.querySelector(selector));
  }
}

// The wall: asks every few seconds, and shows what is new only if something is.
const wall = document.querySelector("[data-refresh]");
if (wall) {
  const seconds = Number(wall.dataset.refresh);
  const said = document.getElementById("stale");
  let failed = 0;
  setInterval(async () => {
    if (!document.getElementById("refresh").checked || document.hidden) return;
    try {
      const other = await fetched(location.href);
      if (other.body.dataset.number !== document.body.dataset.number) {
        replaced("[data-refresh]", other);
        document.body.dataset.number = other.body.dataset.number;
      }
      failed = 0;
      said.hidden = true;
    } catch (error) {
      failed += 1;
      said.textContent = error.message === "401" ? said.dataset.ended : said.dataset.away;
      said.hidden = failed < 3 && error.message !== "401";
    }
  }, 1000 * seconds);
}

// A form that changes nothing: what it shows follows what is ticked.
for (const form of document.querySelectorAll("form[data-live]")) {
  let last;
  form.addEventListener("change", async () => {
    last?.abort();
    const mine = last = new AbortController();
    const fields = new URLSearchParams(new FormData(form));
    for (const name of ["key", "seen", "shown"]) fields.delete(name);
    const long = form.method === "post"; // too many fields for an address
    const address = `${form.action}?${fields}`;
    if (long) fields.set("look", "1");
    try {
      const other = await (long ? fetched(form.action, mine.signal, fields) : fetched(address, mine.signal));
      if (mine.signal.aborted) return; // something else was ticked meanwhile
      replaced("#live", other);
      if (!long) history.replaceState(null, "", address);
    } catch {
      if (mine.signal.aborted) return;
      if (long) form.requestSubmit(form.querySelector("[name=look]"));
      else location.assign(address);
    }
  });
}

// What was done last can be undone for a while.
const undo = document.querySelector("form[data-left]");
if (undo) setTimeout(() => { undo.hidden = true; }, 1000 * undo.dataset.left);

for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}

localTimes(document);
