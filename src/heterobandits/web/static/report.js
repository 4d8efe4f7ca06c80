// Reports that survive a lost network: each waits in the browser until the server has said that it is saved, and is sent with the key of
// its form, so that sending it twice does nothing twice. An entry belongs to the link it was made with, and is sent with no other.
"use strict";

const { campaign, link, who } = document.body.dataset;
const place = `heterobandits-${campaign}`;
const bar = document.getElementById("queue");
const said = document.getElementById("said");
const AGAIN = 5000; // milliseconds between two tries
const PATIENCE = 20000; // milliseconds until an answer
const AWAY = "No network: this waits here, and is sent by itself.";
const SHUT = "Your link opens this no longer: what you reported waits here. Open your link again, or ask for another one.";
const TAKEN = [409, 412, 422]; // refused, with the page that says why
let sending = null; // the id of the entry that is on its way
let why = AWAY;

const read = () => JSON.parse(localStorage.getItem(place) || "[]");
const keep = (entries) => localStorage.setItem(place, JSON.stringify(entries));
const drop = (id) => keep(read().filter((entry) => entry.id !== id));
const mine = (entry) => entry.link === link && !entry.refused;
const formOf = (form) => form.action + form.elements.arm.value;
const queued = () => document.querySelectorAll("form[data-queue]");

function line(text, name, act) {
  const item = document.createElement("li");
  item.textContent = `${text} `;
  if (name) {
    const button = item.appendChild(document.createElement("button"));
    button.className = "bare";
    button.textContent = name;
    button.addEventListener("click", () => { act(); show(); });
  }
  return item;
}

function part(title, entries, text, name) {
  if (!entries.length) return;
  bar.append(title);
  const list = bar.appendChild(document.createElement("ul"));
  for (const entry of entries) {
    list.append(line(text(entry), entry.id === sending ? "" : name, () => drop(entry.id)));
  }
}

function show() {
  const entries = read();
  bar.hidden = !entries.length;
  bar.replaceChildren();
  const what = (entry) => `${entry.label}: ${entry.says}`;
  part(sending ? "Sending …" : why, entries.filter(mine), what, "Discard");
  const refused = entries.filter((entry) => entry.refused);
  part("The server did not take this:", refused, (entry) => `${what(entry)}. ${entry.refused}`, "Understood");
  const others = entries.filter((entry) => entry.link !== link && !entry.refused);
  part("This waits until its own link is opened here again:", others, (entry) => `${entry.who}, ${what(entry)}`, "Discard");
  const waiting = new Set(entries.filter(mine).map((entry) => entry.form));
  for (const form of queued()) {
    for (const button of form.querySelectorAll("button")) button.disabled = waiting.has(formOf(form));
  }
}

// What somebody is typing elsewhere on the page stays, and so does what is open, and the place of the keyboard.
function update(other, done) {
  const before = new Map();
  for (const form of queued()) before.set(formOf(form), form);
  const active = document.activeElement?.form;
  const focused = active && formOf(active) !== done ? [formOf(active), document.activeElement.name] : null;
  for (const alert of other.querySelectorAll(".alert")) alert.remove(); // it is in the bar
  const now = document.adoptNode(other);
  document.getElementById("live").replaceWith(now);
  localTimes(now);
  for (const form of queued()) {
    const old = before.get(formOf(form));
    if (!old || formOf(form) === done) continue;
    for (const field of form.querySelectorAll("input:not([type=hidden])")) field.value = old.elements[field.name]?.value ?? field.value;
    if (old.closest("details")?.open) form.closest("details")?.setAttribute("open", "");
    if (focused?.[0] === formOf(form)) form.elements[focused[1]]?.focus?.({ preventScroll: true });
  }
}

async function send(entry) {
  const answer = await fetch(entry.action, {
    method: "POST",
    headers: { "Content-Type": "application/x-www-form-urlencoded" },
    body: entry.body,
    signal: AbortSignal.timeout(PATIENCE),
  });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const ours = page.querySelector("meta[name=generator][content=heterobandits]");
  if (!ours || answer.status >= 500) return; // of whoever stands in between, or of a server that cannot now
  if (answer.status === 401 || answer.status === 403) {
    why = SHUT;
    return;
  }
  const live = page.getElementById("live");
  if (answer.ok && live) {
    drop(entry.id);
    said.textContent = `Saved: ${entry.label}: ${entry.says}.`;
  } else if (TAKEN.includes(answer.status) || answer.status === 404) {
    const text = page.querySelector(".alert")?.textContent.trim() || `Error ${answer.status}.`;
    keep(read().map((one) => (one.id === entry.id ? { ...one, refused: text } : one)));
  } else {
    return;
  }
  if (live) update(live, entry.form);
}

async function flush() {
  if (sending || !read().some(mine)) return;
  why = AWAY;
  try {
    for (const { id } of read()) {
      const entry = read().find((one) => one.id === id && mine(one)); // it may have been discarded meanwhile
      if (!entry) continue;
      sending = id;
      show();
      await send(entry);
    }
  } catch { /* no network: all of it is tried again */ }
  sending = null;
  show();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.queue) return;
  const fields = new FormData(form, event.submitter);
  const entry = {
    id: `${fields.get("key")}${Date.now()}`,
    form: formOf(form),
    action: form.action,
    body: new URLSearchParams(fields).toString(),
    label: form.dataset.queue,
    says: fields.get("do") === "count" ? `${fields.get("successes")} of ${fields.get("tests")}` : fields.get("do"),
    link,
    who,
  };
  try {
    keep([...read(), entry]);
  } catch {
    return; // this browser keeps nothing: the form is sent as it is
  }
  event.preventDefault();
  said.textContent = "";
  show();
  flush();
});

window.addEventListener("online", flush);
window.addEventListener("storage", show); // of another tab
document.addEventListener("visibilitychange", () => { if (!document.hidden) flush(); });
setInterval(flush, AGAIN);
show();
flush();
