// Long computations bit by bit: a form, or a button, with data-stream is sent there; progress moves, and the result is put into the page.
"use strict";
(() => {
  const place = document.getElementById("outlook");
  const said = document.getElementById("outlook-said");
  const bar = document.getElementById("outlook-progress");
  const QUARTERS = ["Playing the rounds …", "A quarter is played.", "Half of it is played.", "Nearly done."];
  let running = null;

  function begin() {
    place.replaceChildren();
    bar.value = 0;
    bar.hidden = false;
    said.className = "right";
    said.textContent = QUARTERS[0];
  }

  function end(text, failed) {
    bar.hidden = true;
    said.textContent = text;
    said.className = failed ? "wrong" : "right";
  }

  function take(line) {
    if ("html" in line) {
      place.innerHTML = line.html; // made by the server, where every name is escaped
      end("Played: the result follows.", false);
      return true;
    }
    if ("error" in line) {
      end(line.error, true);
      return true;
    }
    bar.value = line.share;
    // once a quarter: whoever listens is not told every percent
    const text = line.said || QUARTERS[Math.min(3, Math.floor(4 * line.share))];
    if (text !== said.textContent) said.textContent = text;
    return false;
  }

  async function read(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let over = false;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) over = take(JSON.parse(line)) || over;
    }
    if (!over) throw new Error("it broke off");
  }

  async function run(form, submitter, where) {
    if (running) running.abort();
    const mine = new AbortController();
    running = mine;
    const fields = new URLSearchParams(new FormData(form));
    const posts = form.method === "post";
    const url = posts ? where : `${where}?${fields}`;
    begin();
    try {
      const how = { method: form.method, signal: mine.signal, body: posts ? fields : undefined };
      const answer = await fetch(url, how);
      if (!answer.ok) { // the page itself says what is wrong, beside the fields
        form.dataset.plain = "yes";
        form.requestSubmit(submitter);
        return;
      }
      await read(answer);
      if (!posts) history.replaceState(null, "", `${form.getAttribute("action")}?${fields}`);
    } catch (error) {
      if (!mine.signal.aborted) end("The connection broke off: try again.", true);
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    const where = event.submitter?.dataset.stream ?? form.dataset.stream;
    if (!where || !place || form.dataset.plain) return;
    event.preventDefault();
    run(form, event.submitter, where);
  });
  window.addEventListener("pageshow", () => { // after a step back a form is as it was
    for (const form of document.querySelectorAll("form[data-plain]")) delete form.dataset.plain;
  });
})();
