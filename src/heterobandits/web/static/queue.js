// What was reported and is not at the server yet: one queue in this browser, for all its tabs and for the worker, which both load this
// file. An entry is of a campaign, an agent and a visit, whatever link it was made with: any link that may report for that agent sends
// it. It leaves the queue when somebody discards it, or some time after the server has said that it is saved.
"use strict";

const Waiting = (() => {
  const NAME = "heterobandits";
  const PATIENCE = 20000; // milliseconds until an answer
  const MOST_SENT = 20; // that are kept to be looked at
  const FIELDS = ["arm", "planned", "seen", "do", "successes", "tests", "elsewhere", "note", "entered", "key"];
  const STRICT = { durability: "strict" }; // a battery may be empty the next moment
  const channel = new BroadcastChannel(NAME);
  let opened = null;
  let busy = false; // where there are no locks

  function database() {
    opened ??= new Promise((resolve, reject) => {
      const asked = indexedDB.open(NAME, 1);
      asked.onupgradeneeded = () => {
        asked.result.createObjectStore("entries", { keyPath: "id" });
        asked.result.createObjectStore("holders", { keyPath: "campaign" });
        asked.result.createObjectStore("facts", { keyPath: "name" });
      };
      asked.onsuccess = () => {
        asked.result.onversionchange = asked.result.onclose = () => { asked.result.close(); opened = null; };
        resolve(asked.result);
      };
      asked.onerror = () => { opened = null; reject(asked.error); };
    });
    return opened;
  }

  async function within(store, mode, act) {
    const transaction = (await database()).transaction(store, mode, mode === "readwrite" ? STRICT : {});
    const asked = act(transaction.objectStore(store));
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(asked?.result);
      transaction.onerror = transaction.onabort = () => reject(transaction.error);
    });
  }

  const all = async () => (await within("entries", "readonly", (store) => store.getAll())).sort((one, other) => (one.made < other.made ? -1 : 1));
  const add = (...entries) => within("entries", "readwrite", (store) => { for (const entry of entries) store.put(entry); }).then(tell);
  const drop = (...ids) => within("entries", "readwrite", (store) => { for (const id of ids) store.delete(id); }).then(tell);
  const holders = async () => new Map((await within("holders", "readonly", (store) => store.getAll())).map((one) => [one.campaign, one]));
  const hold = (holder) => within("holders", "readwrite", (store) => { store.put(holder); });
  const fact = async (name) => (await within("facts", "readonly", (store) => store.get(name)))?.value;
  const learn = (name, value) => within("facts", "readwrite", (store) => { store.put({ name, value }); });
  const tell = () => channel.postMessage({ kind: "changed" });

  // An entry that somebody has discarded meanwhile does not come back.
  const change = (id, news) => within("entries", "readwrite", (store) => {
    store.get(id).onsuccess = ({ target }) => { if (target.result) store.put({ ...target.result, ...news }); };
  }).then(tell);

  const address = (entry) => `/campaigns/${entry.campaign}/rounds/${entry.round}/outcomes/${entry.agent}`;
  const visit = (entry) => [entry.campaign, entry.agent, entry.round, entry.arm].join(" ");
  const isOpen = (holder) => Boolean(holder) && holder.shut !== holder.link; // until it opens a page again
  const may = (holder, entry) => Boolean(holder) && (!holder.agent || holder.agent === entry.agent);

  function body(entry) {
    const fields = new URLSearchParams();
    for (const name of FIELDS) if (entry[name]) fields.set(name, entry[name]);
    if (!entry.note) fields.set("note", "");
    return fields.toString();
  }

  // What came of sending it: sent, refused, shut if the link does not open this, busy if this campaign is to be tried again, or away if
  // nobody is reached.
  async function send(entry) {
    const answer = await fetch(address(entry), {
      method: "POST",
      headers: {
        "Content-Type": "application/x-www-form-urlencoded",
        Accept: "application/json",
        "Heterobandits-Clock": new Date().toISOString(),
      },
      body: body(entry),
      cache: "no-store",
      redirect: "manual",
      signal: AbortSignal.timeout(PATIENCE),
    });
    const said = await answer.json().catch(() => null);
    if (answer.ok && Number.isInteger(said?.saved)) return ["sent", { saved: said.saved }];
    const kind = typeof said?.type === "string" && said.type.startsWith("/problems/") ? said.type.slice(10) : "";
    if (!kind) return ["away"]; // of whoever stands in between
    if (answer.status === 401 || answer.status === 403) return ["shut"];
    if (answer.status >= 500 || answer.status === 429 || kind === "conflict") return ["busy"];
    return ["refused", { refused: String(said.detail), kind }];
  }

  async function sendAll() {
    const tried = new Set();
    const later = new Set(); // campaigns that cannot take anything now: what waits for others is not held up
    for (;;) {
      const known = await holders();
      const next = (await all()).find((one) => one.status === "waiting" && !tried.has(one.id) && !later.has(one.campaign) && isOpen(known.get(one.campaign)) && may(known.get(one.campaign), one));
      if (!next) return later.size ? "away" : "done";
      tried.add(next.id);
      channel.postMessage({ kind: "sending", id: next.id });
      const [status, news] = await send(next);
      if (status === "away") return status;
      if (status === "busy") {
        later.add(next.campaign);
        continue;
      }
      if (status === "shut") {
        const holder = known.get(next.campaign);
        await hold({ ...holder, shut: holder.link });
        continue;
      }
      await change(next.id, { status, ...news, told: new Date().toISOString() });
      const sent = (await all()).filter((one) => one.status === "sent");
      if (sent.length > MOST_SENT) await drop(...sent.slice(0, sent.length - MOST_SENT).map((one) => one.id));
    }
  }

  // Send what waits; whoever else is at it does it for all.
  async function flush() {
    const work = async () => {
      const came = await sendAll().catch(() => "away"); // no network
      channel.postMessage({ kind: "tried", came });
      return came;
    };
    if (globalThis.navigator?.locks) return navigator.locks.request(`${NAME}-send`, { ifAvailable: true }, (lock) => (lock ? work() : "elsewhere"));
    if (busy) return "elsewhere";
    busy = true;
    try { return await work(); } finally { busy = false; }
  }

  return { all, add, drop, change, hold, holders, fact, learn, flush, visit, may, channel };
})();
