"use strict";
/* Everything works without this file; with it the feed moves by itself and search answers while
   one types. All text comes from the server escaped; nothing here makes markup out of text. */

const FEED_MILLISECONDS = 3000;
const TYPING_MILLISECONDS = 250;

async function fetched(address, signal) {
  const answer = await fetch(address, { credentials: "same-origin", signal });
  if (!answer.ok || answer.redirected) throw new Error(`${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

/* ---- a list of events that grows at its top ---- */
function keepFresh(feed) {
  const status = document.getElementById(feed.dataset.status);
  const known = () => new Set([...feed.children].map((item) => item.dataset.event));
  const look = async () => {
    if (document.hidden) return;
    try {
      const newest = (await fetched(feed.dataset.feed)).querySelector("[data-feed]");
      const before = known();
      const items = [...newest.children].map((item) => document.importNode(item, true));
      const arrived = items.filter((item) => !before.has(item.dataset.event));
      if (arrived.length === 0) return;
      arrived.forEach((item) => item.classList.add("new"));
      feed.replaceChildren(...items);
      document.getElementById(feed.dataset.empty)?.remove();
      if (status) status.textContent = arrived.length === 1 ? "1 new event" : `${arrived.length} new events`;
    } catch {
      if (status) status.textContent = "No answer; trying again.";
    }
  };
  // The next look begins after the last has ended: a slow answer is not asked for twice.
  const keepLooking = async () => {
    await look();
    setTimeout(keepLooking, FEED_MILLISECONDS);
  };
  setTimeout(keepLooking, FEED_MILLISECONDS);
}

/* ---- a search that answers while one types ---- */
function answerWhileTyping(form) {
  let waiting = 0;
  let asking = new AbortController();
  const ask = async () => {
    asking.abort();
    asking = new AbortController();
    const address = `${form.action}?${new URLSearchParams(new FormData(form))}`;
    try {
      const page = await fetched(address, asking.signal);
      const there = document.getElementById("results");
      const found = page.getElementById("results");
      if (!there || !found) return;
      there.replaceWith(document.importNode(found, true));
      history.replaceState(null, "", address);
    } catch (error) {
      if (error.name !== "AbortError") form.requestSubmit();
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, TYPING_MILLISECONDS);
  });
  form.addEventListener("submit", () => clearTimeout(waiting));
}

/* ---- Escape closes a question and returns to what asked it ---- */
function closeOnEscape(question) {
  question.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !question.open) return;
    question.open = false;
    question.querySelector("summary").focus();
  });
}

/* ---- nothing is sent twice ---- */
function sendOnce(form) {
  form.addEventListener("submit", () => {
    setTimeout(() => form.querySelectorAll("button").forEach((button) => { button.disabled = true; }));
  });
}

document.querySelectorAll("[data-feed]").forEach(keepFresh);
document.querySelectorAll("form[data-live]").forEach(answerWhileTyping);
document.querySelectorAll("details.ask").forEach(closeOnEscape);
document.querySelectorAll("form[method=post]").forEach(sendOnce);
