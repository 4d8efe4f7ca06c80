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
  let plain = false; // whether it is sent as without scripts
  const look = async (button) => {
    last?.abort();
    const mine = last = new AbortController();
    const fields = new URLSearchParams(new FormData(form));
    if (button) fields.set(button.name, button.value);
    for (const name of ["key", "seen", "shown"]) fields.delete(name);
    const long = form.method === "post"; // too many fields for an address
    const address = `${form.action}?${fields}`;
    if (long) fields.set("look", "1");
    try {
      const other = await (long ? fetched(form.action, mine.signal, fields) : fetched(address, mine.signal));
      if (mine.signal.aborted) return; // something else was ticked meanwhile
      replaced("#live", other);
      if (button?.name === "from") document.getElementById("plan")?.scrollIntoView();
      if (!long) history.replaceState(null, "", address);
    } catch {
      if (mine.signal.aborted) return;
      plain = true;
      if (long || button) form.requestSubmit(button || form.querySelector("[name=look]"));
      else location.assign(address);
    }
  };
  form.addEventListener("change", (event) => event.target.type !== "search" && look());
  form.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (plain || !["why", "from"].includes(button?.name)) return;
    event.preventDefault();
    look(button);
  });
}

// What was done last can be undone for a while.
const undo = document.querySelector("form[data-left]");
if (undo) setTimeout(() => { undo.hidden = true; }, 1000 * undo.dataset.left);
// Many things to tick: a box to find them.
for (const group of document.querySelectorAll("[data-filter]")) {
  const box = document.createElement("input");
  box.type = "search";
  box.placeholder = group.dataset.filter;
  box.setAttribute("aria-label", `${group.dataset.filter}: ${group.querySelector("legend").textContent}`);
  group.querySelector("legend").after(box);
  box.addEventListener("input", () => {
    const wanted = box.value.trim().toLocaleLowerCase();
    const rest = group.querySelector("details");
    if (wanted) rest.open = true;
    for (const label of group.querySelectorAll("label")) label.hidden = !label.textContent.toLocaleLowerCase().includes(wanted);
  });
  box.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
}

for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}

localTimes(document);
