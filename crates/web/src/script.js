"use strict";
// Fetches <main> again if an event lists this page. One tab receives events for all tabs.
(() => {
  const $ = id => document.getElementById(id), main = $("main"), body = document.body.classList;
  const channel = new BroadcastChannel("policy-sync"), say = text => { $("live").textContent = text; };
  let stale = false, busy = false;

  const again = ({ id, name, href }) => id ? $(id) :
    name ? main.querySelector(`[name="${name}"]`) : [...main.querySelectorAll("a")].find(a => a.href === href);

  const replace = next => {
    const active = document.activeElement, had = main.contains(active), form = main.querySelector("form");
    const open = [...main.querySelectorAll("details[open]")].map(one => one.id);
    const scrolled = [...main.querySelectorAll(".scroll")].map(one => [one.id, one.scrollLeft]);
    const [x, y] = [scrollX, scrollY];
    // Keep the text being typed.
    if (form) next.querySelector("form")?.replaceWith(form);
    main.replaceChildren(...next.childNodes);
    for (const id of open) $(id)?.setAttribute("open", "");
    for (const [id, left] of scrolled) $(id)?.scrollTo(left, 0);
    if (had) (active === main ? main : again(active) || main).focus({ preventScroll: true });
    scrollTo(x, y);
  };

  const refresh = async () => {
    if (busy || document.hidden) { stale = true; return; }
    busy = true; stale = false;
    try {
      const page = await fetch(location.href);
      if (page.status === 401) return say("This key is from an earlier run: open the new address.");
      replace(new DOMParser().parseFromString(await page.text(), "text/html").querySelector("main"));
    } catch { heard.down(); } finally { busy = false; }
    if (stale) refresh();
  };

  const heard = {
    changed: line => {
      const paths = line.split(" ");
      if (line !== "*" && !paths.includes(location.pathname)) return;
      if ("once" in main.dataset) return say("Changed: reload to see it");
      refresh();
      const names = paths.map(path => decodeURI(path.split("/").slice(2).join(" "))).filter(Boolean);
      const more = names[3] ? ` and ${names.length - 3} more` : "";
      say("Changed: " + (names.slice(0, 3).join(", ") || "the hub") + more);
    },
    down: () => { body.add("lost"); say("Connection lost: trying again"); },
    up: () => {
      if (!body.contains("lost")) return;
      body.remove("lost");
      say("Connected again");
      refresh();
    },
  };

  const tell = (...news) => { heard[news[0]](news[1]); channel.postMessage(news); };
  const listen = () => {
    const events = new EventSource("/events");
    events.onopen = () => tell("up");
    events.onmessage = event => tell("changed", event.data);
    events.onerror = () => {
      tell("down");
      if (events.readyState === 2) { refresh(); setTimeout(listen, 2000); }
    };
  };

  channel.onmessage = ({ data: [what, line] }) => heard[what](line);
  document.addEventListener("visibilitychange", () => { if (stale) refresh(); });
  navigator.locks.request("policy-sync", () => new Promise(listen));
})();
