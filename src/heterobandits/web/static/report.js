// The page of reports, and pages that are shown in its place: what is reported waits in this browser (queue.js) until the server has it;
// a page that is left open learns of a new round; and what a phone cannot send can be copied, shared or shown as codes.
"use strict";

const here = document.body.dataset;
const bar = document.getElementById("queue");
const said = document.getElementById("said");
const AGAIN = 5000; // milliseconds between two tries
const POLL = 15000; // milliseconds between two looks for a new round
const LINE = "HB1"; // what a line begins with that is handed over
const CODE_LETTERS = 400; // in one code
const AWAY = "No network: this waits here, and is sent by itself.";
const SHUT = "Your link opens this no longer: what you reported waits here. It is sent as soon as you open another link of yours in this browser.";
const OTHERS = "Not yours: this waits until a link of theirs is opened in this browser.";
const NOBODYS = "This was reported in this browser and is not lost: it waits here. Any link of the same person that is opened in this browser later sends it.";
const WHAT_TO_DO = {
  "already-reported": "If yours is right, open “Correct it” at that visit.",
  "changed-since": "Look at the page, and report again if that is still needed.",
};
const NEXT = "Correct it and report again, or tell whoever plans.";

let sending = null; // the id of the entry that is on its way
let came = ""; // of the last try
let ended = false; // the link opens this no longer

const formOf = (form) => [here.campaign, form.dataset.agent, form.dataset.round, form.elements.arm.value].join(" ");
const queued = () => document.querySelectorAll("form[data-queue]");
const moment = (time) => new Date(time).toLocaleString([], { weekday: "long", hour: "numeric", minute: "2-digit" });

function made(kind, text, more = {}) {
  const element = Object.assign(document.createElement(kind), more);
  element.textContent = text;
  return element;
}

function button(name, act) {
  const element = made("button", name, { type: "button", className: "bare" });
  element.addEventListener("click", act);
  return element;
}

function saysOf(entry) {
  const counts = entry.do === "count" ? `${entry.successes} of ${entry.tests}` : entry.do === "withdraw" ? "delete the report" : entry.do;
  return [counts, entry.elsewhereName && `at ${entry.elsewhereName}`, entry.note].filter(Boolean).join(", ");
}

const textOf = (entry) => `${entry.label}: ${saysOf(entry)}`;

async function discard(entry) {
  const warning = entry.status === "refused" ? "It was not saved." : "The server does not have it yet.";
  if (window.confirm(`Discard this report? ${textOf(entry)}. ${warning}`)) await Waiting.drop(entry.id);
  await show();
}

async function sendAgain(entry) {
  await Waiting.change(entry.id, { status: "waiting" });
  flush();
}

function part(title, entries, line) {
  if (!entries.length) return;
  bar.append(made("p", title));
  const list = bar.appendChild(document.createElement("ul"));
  for (const entry of entries) {
    const item = list.appendChild(made("li", `${line(entry)} `));
    if (entry.id === sending) continue;
    if (entry.status === "refused") item.append(button("Send again", () => sendAgain(entry)));
    item.append(button("Discard", () => discard(entry)));
  }
}

async function show() {
  const [entries, holders] = await Promise.all([Waiting.all(), Waiting.holders()]);
  const holder = holders.get(here.campaign);
  const open = bar.querySelector("details[open]") !== null;
  const waits = entries.filter((one) => one.status === "waiting");
  const ours = waits.filter((one) => one.campaign === here.campaign && Waiting.may(holder, one));
  const others = waits.filter((one) => !ours.includes(one));
  const told = entries.filter((one) => one.campaign === here.campaign && Waiting.may(holder, one)); // of others nobody else is told
  const refused = told.filter((one) => one.status === "refused");
  const sent = told.filter((one) => one.status === "sent");
  const shut = ended || (holder && holder.shut === holder.link);
  bar.replaceChildren();
  part(sending ? "Sending …" : shut ? SHUT : came === "away" || !navigator.onLine ? AWAY : "Waiting to be sent.", ours, textOf);
  part("Not saved:", refused, (one) => `${textOf(one)}. ${one.refused} ${WHAT_TO_DO[one.kind] || NEXT}`);
  part(here.campaign ? OTHERS : NOBODYS, others, (one) => `${one.name}${one.park && one.campaign !== here.campaign ? ` (${one.park})` : ""}, ${textOf(one)}`);
  if (waits.length + refused.length) bar.append(handover([...waits, ...refused], open));
  if (sent.length) {
    const latest = sent.slice(-5).reverse();
    const box = bar.appendChild(document.createElement("details"));
    box.append(made("summary", `Sent: ${sent.length}`));
    const list = box.appendChild(document.createElement("ul"));
    for (const one of latest) list.append(made("li", `${textOf(one)}, ${moment(one.told)}`));
    box.append(button("Clear this list", async () => { await Waiting.drop(...sent.map((one) => one.id)); show(); }));
  }
  bar.hidden = !bar.childElementCount;
  bar.classList.toggle("quiet", !waits.length && !refused.length);
  const held = new Map();
  for (const one of entries) {
    const unseen = one.status === "sent" && one.saved > Number(here.number); // this page is older than that
    if (one.status === "waiting" || unseen) held.set(Waiting.visit(one), one);
  }
  for (const form of queued()) {
    const entry = held.get(formOf(form));
    for (const control of form.querySelectorAll("button")) control.disabled = Boolean(entry);
    let note = form.querySelector(".held");
    if (!entry) note?.remove();
    else {
      note ??= form.appendChild(made("p", "", { className: "state held" }));
      note.textContent = `${saysOf(entry)}: ${entry.status === "sent" ? "sent" : "waits here"}`;
    }
  }
}

// A way out without a network: lines that the coordinator's page takes. No line has a blank, so whatever mails and chats add is apart.
function crc32(text) {
  let value = -1;
  for (const byte of new TextEncoder().encode(text)) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  }
  return ((value ^ -1) >>> 0).toString(16).padStart(8, "0");
}

function lineOf(entry) {
  const outcome = { found: "1/1", "not found": "0/1", "not done": "-", withdraw: "x", count: `${entry.successes}/${entry.tests}` }[entry.do];
  const parts = [LINE, entry.campaign, entry.agent, entry.round, entry.planned, entry.arm, outcome, entry.seen, entry.entered, entry.elsewhere, entry.note];
  const line = parts.map((one) => encodeURIComponent(one || "").replaceAll("%2F", "/").replaceAll("%3A", ":")).join(";");
  return `${line};${crc32(line)}`;
}

function handover(entries, open) {
  const lines = entries.map(lineOf);
  const text = lines.join("\n");
  const box = made("details", "", { open });
  box.append(made("summary", "No network for long? Hand these over"));
  box.append(made("p", "Send this text by any other way, or let somebody scan the codes: whoever plans puts it into their page Report. It also stays here until the server has it; coming twice does no harm."));
  const field = box.appendChild(made("textarea", text, { readOnly: true, rows: 3, className: "few" }));
  field.setAttribute("aria-label", "What waits, as a text");
  const row = box.appendChild(made("p", "", { className: "actions" }));
  row.append(button("Copy", async () => {
    field.select();
    try { await navigator.clipboard.writeText(text); } catch { document.execCommand("copy"); }
    said.textContent = "Copied.";
  }));
  if (navigator.share) row.append(button("Share", () => navigator.share({ text }).catch(() => {})));
  row.append(button("Show codes", () => {
    const blocks = [""];
    for (const line of lines) {
      if (blocks.at(-1) && blocks.at(-1).length + line.length >= CODE_LETTERS) blocks.push("");
      blocks[blocks.length - 1] += `${line}\n`;
    }
    const codes = box.querySelector(".qr") || box.appendChild(made("div", "", { className: "qr" }));
    codes.replaceChildren(...blocks.map((block, number) => drawCode(block, `What waits as a QR code, ${number + 1} of ${blocks.length}`)));
  }));
  return box;
}

// What somebody is typing stays, and so does what is open, and the place of the keyboard.
function update(other) {
  const before = new Map();
  for (const form of queued()) before.set(formOf(form), form);
  const active = document.activeElement?.form;
  const focused = active?.dataset.queue ? [formOf(active), document.activeElement.name] : null;
  const now = document.adoptNode(other.getElementById("live"));
  const places = (root) => [...root.querySelectorAll("details")];
  document.getElementById("live").replaceWith(now);
  localTimes(now);
  Object.assign(here, other.body.dataset);
  for (const form of queued()) {
    const old = before.get(formOf(form));
    if (!old || (old.elements.seen?.value || "") !== (form.elements.seen?.value || "")) continue; // it was reported meanwhile
    for (const field of form.querySelectorAll("input:not([type=hidden]), textarea, select")) field.value = old.elements[field.name]?.value ?? field.value;
    const opened = places(old);
    places(form).forEach((one, number) => { one.open = opened[number]?.open ?? one.open; });
    if (old.closest("details")?.open) form.closest("details")?.setAttribute("open", "");
    if (focused?.[0] === formOf(form)) form.elements[focused[1]]?.focus?.({ preventScroll: true });
  }
}

let looking = false;
async function look() {
  if (looking || !document.getElementById("live") || document.hidden) return;
  looking = true;
  try {
    const answer = await fetch(location.pathname + location.search, { cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(20000) });
    const other = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!other.querySelector("meta[name=generator][content=heterobandits]")) return;
    if (answer.status === 401 || answer.status === 403) ended = true;
    if (!answer.ok || !other.getElementById("live")) return;
    if (ended || (await Waiting.holders()).get(here.campaign)?.shut) await hold();
    ended = false;
    if (other.body.dataset.link !== here.link) {
      location.reload();
      return;
    }
    const news = other.body.dataset.number !== here.number || here.asOf;
    delete here.asOf;
    asOf();
    if (news) update(other);
  } catch { /* no network */ } finally {
    looking = false;
    await show();
  }
}

function asOf() {
  const note = document.getElementById("as-of");
  if (!note) return;
  note.hidden = !here.asOf;
  if (here.asOf) note.textContent = `No network. This is as of ${moment(here.asOf)}.`;
}

async function flush() {
  const result = await Waiting.flush();
  if (result === "elsewhere") return;
  sending = null;
  came = result;
  await show();
  await lookIfSent();
}

async function lookIfSent() { // what was sent is not on the page yet
  if ((await Waiting.all()).some((one) => one.status === "sent" && one.saved > Number(here.number))) await look();
}

Waiting.channel.addEventListener("message", ({ data }) => { // of another tab, or of the worker
  if (data.kind === "sending") sending = data.id;
  if (data.kind === "tried") [sending, came] = [null, data.came];
  show();
  if (data.kind === "tried") lookIfSent();
});

// 9 of 5 cannot be: that is said at once, without a network too.
function mistake(form, fields) {
  form.querySelector(".mistake")?.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
  if (fields.get("do") !== "count") return false;
  const [found, tests] = ["successes", "tests"].map((name) => Number(fields.get(name)));
  const most = Number(form.dataset.most);
  let why = "";
  if (found > tests) why = form.dataset.impossible.replaceAll("{found}", found).replaceAll("{tests}", tests);
  else if (tests > most) why = `${tests} is far more than planned: at most ${most} can be reported with this link.`;
  if (!why) return false;
  const note = made("p", why, { className: "wrong mistake", id: `mistake-${form.dataset.round}-${form.dataset.agent}-${fields.get("arm")}` });
  note.setAttribute("role", "alert");
  const wrong = form.elements[found > tests ? "successes" : "tests"];
  wrong.setAttribute("aria-invalid", "true");
  wrong.setAttribute("aria-describedby", note.id);
  form.querySelector(".count").after(note);
  wrong.focus();
  return true;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.queue || form.dataset.plain) return;
  const { submitter } = event;
  const fields = new FormData(form, submitter);
  event.preventDefault();
  said.textContent = "";
  if (mistake(form, fields)) return;
  for (const control of form.querySelectorAll("button")) control.disabled = true;
  const random = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const now = new Date().toISOString();
  const entry = Object.fromEntries(fields);
  const elsewhere = form.elements.elsewhere?.selectedOptions[0];
  Object.assign(entry, {
    id: random,
    key: random,
    campaign: here.campaign,
    park: here.name,
    agent: form.dataset.agent,
    name: form.dataset.name,
    round: form.dataset.round,
    label: form.dataset.queue,
    elsewhereName: elsewhere?.value ? elsewhere.text : "",
    entered: now,
    made: now,
    status: "waiting",
  });
  Waiting.add(entry).then(async () => {
    form.closest(".visit > details")?.removeAttribute("open");
    await show();
    askToKeep();
    flush();
  }, () => { // this browser keeps nothing: the form is sent as it is
    form.dataset.plain = "yes";
    for (const control of form.querySelectorAll("button")) control.disabled = false;
    form.requestSubmit(submitter);
  });
});

// Asked once: a browser that is short of room shall not throw away what waits. And it may send it with the page closed.
async function askToKeep() {
  navigator.serviceWorker?.ready.then((worker) => worker.sync?.register("reports")).catch(() => {});
  if (!navigator.storage?.persist || (await Waiting.fact("asked to keep"))) return;
  await Waiting.learn("asked to keep", true);
  await navigator.storage.persist();
}

// What an earlier version kept for this campaign: of each the form, as it was sent.
async function migrate() {
  const place = `heterobandits-${here.campaign}`;
  const old = JSON.parse(localStorage.getItem(place) || "[]");
  await Waiting.add(...old.map((one) => {
    const [, round, agent] = one.action.match(/\/rounds\/(\d+)\/outcomes\/([^/?]+)$/) || [];
    const fields = Object.fromEntries(new URLSearchParams(one.body));
    const status = one.refused ? "refused" : "waiting";
    return { ...fields, id: one.id, key: one.id, campaign: here.campaign, park: here.name, agent, name: one.who, round, label: one.label, made: new Date().toISOString(), status, refused: one.refused || "" };
  }));
  localStorage.removeItem(place);
}

const hold = () => Waiting.hold({ campaign: here.campaign, park: here.name, agent: here.agent, who: here.who, link: here.link });

// What the bar at the bottom covers is no place to scroll to, and what somebody types in stays in sight when the bar comes or grows.
new ResizeObserver(() => {
  const covers = !bar.hidden && !bar.classList.contains("quiet");
  document.documentElement.style.scrollPaddingBottom = covers ? `${Math.ceil(bar.getBoundingClientRect().height) + 8}px` : "";
  const active = document.activeElement;
  if (!covers || active === document.body || bar.contains(active)) return;
  const { top, bottom } = active.getBoundingClientRect();
  if (bottom > bar.getBoundingClientRect().top && top < innerHeight) active.scrollIntoView({ block: "nearest" });
}).observe(bar);

async function begin() {
  asOf();
  if (here.campaign && !here.asOf) await hold();
  if (here.campaign) await migrate().catch(() => {});
  await show();
  if (navigator.serviceWorker && here.campaign) {
    navigator.serviceWorker.addEventListener("controllerchange", look); // it keeps the page that it sees
    navigator.serviceWorker.register("/worker.js", { scope: "/", updateViaCache: "none" }).catch(() => {});
  }
  if (here.asOf) await look();
  await flush();
}

const onceMore = () => { flush(); look(); };
window.addEventListener("online", onceMore);
window.addEventListener("offline", show);
document.addEventListener("visibilitychange", () => { if (!document.hidden) onceMore(); });
setInterval(async () => { if ((await Waiting.all()).some((one) => one.status === "waiting")) flush(); }, AGAIN);
setInterval(look, POLL);
begin();
