// Reports that survive a lost network: each waits in the browser until the server has said that it is saved, and is sent with the key of
// its form, so that sending it twice does nothing twice.
"use strict";

const place = `heterobandits-${document.body.dataset.campaign}`;
const bar = document.getElementById("queue");
const AGAIN = 5000; // milliseconds between two tries
const PATIENCE = 20000; // milliseconds until an answer
const refused = []; // what the server did not take, and why
const SHUT = "Your link opens this no longer: what you reported waits here. Open your link again, or ask for another one.";
const AWAY = "No network: this waits here, and is sent by itself.";
let sending = false;
let why = AWAY;

const read = () => JSON.parse(localStorage.getItem(place) || "[]");
const keep = (entries) => localStorage.setItem(place, JSON.stringify(entries));

function line(text, undo) {
  const item = document.createElement("li");
  item.textContent = `${text} `;
  const button = document.createElement("button");
  button.className = "bare";
  button.textContent = undo.name;
  button.addEventListener("click", undo.act);
  item.append(button);
  return item;
}

function show() {
  const entries = read();
  bar.hidden = !entries.length && !refused.length;
  bar.replaceChildren();
  const list = document.createElement("ul");
  if (entries.length) {
    bar.append(sending ? "Sending …" : why);
    for (const entry of entries) {
      const drop = () => { keep(read().filter((other) => other.id !== entry.id)); show(); };
      list.append(line(`${entry.label}: ${entry.says}`, { name: "Discard", act: drop }));
    }
  } else if (refused.length) {
    bar.append("The server did not take this:");
  }
  for (const one of refused) {
    const drop = () => { refused.splice(refused.indexOf(one), 1); show(); };
    list.append(line(`${one.label}: ${one.why}`, { name: "Understood", act: drop }));
  }
  bar.append(list);
  const waiting = new Set(entries.map((entry) => entry.form));
  for (const form of document.querySelectorAll("form[data-queue]")) {
    for (const button of form.querySelectorAll("button")) button.disabled = waiting.has(form.action + form.elements.arm.value);
  }
}

function update(text) {
  const other = new DOMParser().parseFromString(text, "text/html").getElementById("live");
  if (other) {
    for (const alert of other.querySelectorAll(".alert")) alert.remove(); // it is in the bar
    document.getElementById("live").replaceWith(document.adoptNode(other));
    localTimes(document.getElementById("live"));
  }
}

async function send(entry) {
  const answer = await fetch(entry.action, {
    method: "POST",
    headers: { "Content-Type": "application/x-www-form-urlencoded" },
    body: entry.body,
    signal: AbortSignal.timeout(PATIENCE),
  });
  const text = await answer.text();
  if (answer.status >= 500) throw new Error(String(answer.status));
  if (answer.status === 401 || answer.status === 403) {
    why = SHUT;
    throw new Error(SHUT);
  }
  keep(read().filter((other) => other.id !== entry.id));
  if (!answer.ok) {
    const page = new DOMParser().parseFromString(text, "text/html");
    refused.push({ label: entry.label, why: page.querySelector(".alert")?.textContent.trim() || `error ${answer.status}` });
  }
  update(text);
}

async function flush() {
  if (sending || !read().length) return;
  sending = true;
  why = AWAY;
  show();
  try {
    for (const entry of read()) await send(entry);
  } catch { /* it stays, and is tried again */ }
  sending = false;
  show();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.queue) return;
  const fields = new FormData(form, event.submitter);
  const says = fields.get("do") === "count" ? `${fields.get("successes")} of ${fields.get("tests")}` : fields.get("do");
  const entry = {
    id: `${fields.get("key")}${Date.now()}`,
    form: form.action + fields.get("arm"),
    action: form.action,
    body: new URLSearchParams(fields).toString(),
    label: form.dataset.queue,
    says,
  };
  try {
    keep([...read(), entry]);
  } catch {
    return; // this browser keeps nothing: the form is sent as it is
  }
  event.preventDefault();
  flush();
});

window.addEventListener("online", flush);
document.addEventListener("visibilitychange", () => { if (!document.hidden) flush(); });
setInterval(flush, AGAIN);
show();
flush();
