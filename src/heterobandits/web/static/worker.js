// Lets the page of reports open without a network. It keeps that page, as it was last seen, with the files that it needs, and no other
// page; and it sends what waits when the browser has a network again. `SITE` says which version this is.
"use strict";

const PAGES = "heterobandits-pages";
const FILES = "heterobandits-files";
const REPORT = /^\/campaigns\/[0-9a-f]{12}\/report$/;
const SIGN = '<meta name="generator" content="heterobandits">'; // on all pages that are ours
const PATIENCE = 4000; // milliseconds until the page is shown as it was last seen
const ENDED = [401, 403, 404]; // this browser's link opens the page no longer

self.addEventListener("install", (event) => {
  event.waitUntil((async () => {
    const files = await caches.open(FILES);
    await Promise.all(SITE.files.map((address) => keepFile(files, address)));
    await self.skipWaiting();
  })());
});
self.addEventListener("activate", (event) => {
  event.waitUntil(tidy().then(() => self.clients.claim()));
});

const filesIn = (text) => [...text.matchAll(/"(\/static\/[^"]+)"/g)].map((found) => found[1]);
const isScriptOrStyle = (address) => /\.(js|css|svg)\?/.test(address);

async function keepFile(files, address) {
  if (await files.match(address)) return;
  const answer = await fetch(address);
  if (isFile(answer)) await files.put(address, answer);
}

// A network that asks for a password first answers with a page of its own.
const isFile = (answer) => answer.ok && answer.type === "basic" && !(answer.headers.get("content-type") || "").startsWith("text/html");

// What no page needs that is kept goes: a page of the last version keeps its own files until it was seen anew.
async function tidy() {
  const needed = new Set(SITE.files);
  const pages = await caches.open(PAGES);
  for (const key of await pages.keys()) {
    for (const address of filesIn(await (await pages.match(key)).text())) needed.add(address);
  }
  const files = await caches.open(FILES);
  for (const key of await files.keys()) {
    const { pathname, search } = new URL(key.url);
    if (!needed.has(pathname + search)) await files.delete(key);
  }
}

async function file(request) {
  const kept = await caches.match(request, { cacheName: FILES });
  if (kept) return kept;
  try {
    return await fetch(request);
  } catch (error) {
    const other = await caches.match(request, { cacheName: FILES, ignoreSearch: true }); // of another version: better than none
    if (other) return other;
    throw error;
  }
}

// The page from the network, and whether that is it: then it is kept; if the link does not open it any more, it is kept no longer.
async function look(request) {
  const answer = await fetch(request);
  if (answer.type !== "basic") return [answer, false]; // sent elsewhere by whoever stands in between
  const text = await answer.clone().text();
  if (!text.includes(SIGN)) return [answer, false];
  const address = new URL(request.url).pathname;
  const pages = await caches.open(PAGES);
  if (answer.ok) {
    const files = await caches.open(FILES);
    await Promise.all(filesIn(text).filter(isScriptOrStyle).map((one) => keepFile(files, one))).catch(() => {});
    const headers = { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": answer.headers.get("Content-Security-Policy") || "default-src 'none'", "X-Seen": new Date().toISOString() };
    await pages.put(address, new Response(text, { headers }));
    return [answer, true];
  }
  if (ENDED.includes(answer.status)) await pages.delete(address);
  return [answer, ENDED.includes(answer.status)];
}

async function page(event) {
  const address = new URL(event.request.url).pathname;
  const looked = look(event.request).catch(() => null);
  event.waitUntil(looked);
  const kept = await (await caches.open(PAGES)).match(address);
  const late = new Promise((resolve) => { setTimeout(resolve, kept ? PATIENCE : 600000, null); });
  const [answer, ours] = (await Promise.race([looked, late])) || [null, false];
  if (ours) return answer;
  if (kept) return asLastSeen(kept);
  return answer || away();
}

async function asLastSeen(kept) {
  const text = await kept.text();
  const seen = kept.headers.get("X-Seen");
  return new Response(text.replace("<body ", `<body data-as-of="${seen}" `), { headers: kept.headers });
}

function away() {
  return new Response(SITE.away, { headers: { "Content-Type": "text/html; charset=utf-8" } });
}

// Without a network the beginning is the page that was last seen.
async function home(event) {
  try {
    return await fetch(event.request, { signal: AbortSignal.timeout(PATIENCE) });
  } catch {
    const pages = await caches.open(PAGES);
    const seen = [];
    for (const key of await pages.keys()) seen.push([(await pages.match(key)).headers.get("X-Seen"), key.url]);
    const last = seen.sort().at(-1);
    return last ? Response.redirect(last[1]) : away();
  }
}

// What is kept is looked at anew, so that it goes if the browser holds the link no more, as after signing out.
async function lookAgain() {
  const pages = await caches.open(PAGES);
  for (const key of await pages.keys()) await look(new Request(key.url, { cache: "no-store", redirect: "manual" })).catch(() => {});
}

// Whoever signs out, or opens a link in place of another, leaves no page behind and nothing that was sent; what waits stays.
async function forget() {
  await caches.delete(PAGES);
  const sent = (await Waiting.all()).filter((one) => one.status === "sent");
  await Waiting.drop(...sent.map((one) => one.id));
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname, search } = new URL(request.url);
  if (origin !== self.location.origin) return;
  if (request.method !== "GET") { // what is sent has to say by itself where it comes from
    if (pathname === "/leave" || pathname.startsWith("/enter/")) event.waitUntil(forget());
    return;
  }
  if (pathname.startsWith("/static/")) event.respondWith(file(request));
  else if (REPORT.test(pathname) && !search) {
    event.respondWith(request.mode === "navigate" ? page(event) : look(request).then(([answer]) => answer));
  } else if (request.mode === "navigate" && !pathname.startsWith("/campaigns/") && !pathname.startsWith("/enter/")) {
    if (pathname === "/") event.respondWith(home(event));
    event.waitUntil(lookAgain());
  }
});

self.addEventListener("sync", (event) => {
  event.waitUntil((async () => {
    if ((await Waiting.flush()) === "away") throw new Error("no network yet"); // the browser tries again
    await lookAgain();
  })());
});
