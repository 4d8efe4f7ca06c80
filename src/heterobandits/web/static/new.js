// What is wrong with a campaign that is being made, said while it is typed; the server checks, as it does when the form is sent.
"use strict";
(() => {
  const form = document.querySelector("form[data-check]");
  const WAIT = 400; // milliseconds after the last key
  const touched = new Set();
  let timer;
  let last;

  function filled() {
    return new URLSearchParams(new FormData(form));
  }

  // A form that is larger than the server takes is not sent at all, so that nothing typed is lost.
  function fits() {
    const most = Number(form.dataset.most);
    const size = filled().toString().length;
    const text = size > most ? `This comes to ${size.toLocaleString("en")} bytes: at most ${most.toLocaleString("en")} can be sent.` : "";
    document.getElementById("told-size").textContent = text;
    return size <= most;
  }

  function made(tag, kind, text) {
    const element = document.createElement(tag);
    if (kind) element.className = kind;
    element.textContent = text;
    return element;
  }

  function tell(name, one) {
    const field = form.elements[name];
    const place = document.getElementById(`told-${name}`);
    if (name === "sure") document.getElementById("ask-sure").hidden = !one.errors.length && !field.checked;
    const errors = touched.has(name) || field.value.trim() ? one.errors : [];
    const more = one.lines || [];
    const lines = errors.length ? errors : [one.said || "", ...more];
    if ([...place.querySelectorAll("li, p")].map((line) => line.textContent).join("\n") === lines.join("\n")) return;
    place.replaceChildren();
    if (errors.length) {
      const list = place.appendChild(made("ul", "wrong", ""));
      for (const error of errors) list.append(made("li", "", error));
      field.setAttribute("aria-invalid", "true");
    } else {
      if (one.said) place.append(made("p", "right", one.said));
      for (const line of more) place.append(made("p", "small", line));
      field.removeAttribute("aria-invalid");
    }
  }

  async function check() {
    last?.abort();
    if (!fits()) return;
    last = new AbortController();
    try {
      const answer = await fetch(form.dataset.check, { method: "POST", body: filled(), signal: last.signal });
      if (!answer.ok) return;
      const { words, ...fields } = await answer.json();
      for (const place of document.querySelectorAll("[data-word]")) place.textContent = words.by_name[place.dataset.word];
      for (const [name, one] of Object.entries(fields)) tell(name, one);
    } catch { /* the next time, or when the form is sent */ }
  }

  form.addEventListener("input", (event) => {
    touched.add(event.target.name);
    clearTimeout(timer);
    timer = setTimeout(check, WAIT);
  });
  form.addEventListener("submit", (event) => {
    if (fits()) return;
    event.preventDefault();
    event.stopPropagation(); // nor is it tried
  });
  if (form.elements.agents.value.trim() || form.elements.arms.value.trim()) check();
})();
