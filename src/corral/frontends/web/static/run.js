// The screen of a run: picking nodes and attempts, asking before what cannot be taken back, keys.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // --- elapsed times advance by themselves
  const UNITS = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  function seconds(amount) {
    if (amount < 10) return amount.toFixed(1) + " s";
    const whole = Math.round(amount);
    for (const [size, unit, below, name] of UNITS) {
      if (whole < size) continue;
      const rest = Math.floor((whole % size) / below);
      return `${Math.floor(whole / size)} ${unit}` + (rest ? ` ${rest} ${name}` : "");
    }
    return whole + " s";
  }
  setInterval(() => {
    for (const each of document.querySelectorAll("[data-since]")) each.textContent = seconds(Math.max(0, Date.now() / 1000 - Number(each.dataset.since)));
  }, 1000);

  // --- pick a node or an attempt
  const address = (query) => `/runs/${byId("run").dataset.run}/part?${query}`;
  const show = (query) => htmx.ajax("GET", address(query), { target: "#run", swap: "morph:outerHTML" }).then(() => corral.log.picked());
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-pick]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState(null, "", `${location.pathname}?${link.dataset.pick}`);
    show(link.dataset.pick).then(() => byId("panel").scrollIntoView({ block: "nearest" }));
  });
  window.addEventListener("popstate", () => show(location.search.slice(1)));

  // --- the size of the graph
  const main = byId("main");
  let zoom = 1;
  function resize(wanted) {
    zoom = Math.min(2, Math.max(0.3, wanted));
    main.style.setProperty("--zoom", zoom);
  }
  function fit(least) {
    const box = document.querySelector(".graph"), drawn = box?.querySelector("svg");
    if (drawn) resize(Math.max(least, Math.min(1, (box.clientWidth - 4) / Number(drawn.getAttribute("width")))));
  }
  document.addEventListener("click", (event) => {
    const how = event.target.closest("[data-zoom]")?.dataset.zoom;
    if (how === "fit") fit(0.3);
    else if (how) resize(zoom * (how === "in" ? 1.25 : 0.8));
  });
  fit(0.65);

  // --- ask first
  document.addEventListener("htmx:confirm", (event) => {
    if (!event.detail.question) return;
    event.preventDefault();
    const dialog = byId("ask"), wanted = event.detail.elt.textContent.trim();
    byId("ask-title").textContent = `${wanted}?`;
    byId("ask-words").textContent = event.detail.question;
    byId("ask-yes").textContent = wanted;
    dialog.returnValue = "no";
    dialog.onclose = () => { if (dialog.returnValue === "yes") event.detail.issueRequest(true); };
    dialog.showModal();
  });

  // --- say what became of it
  let hiding;
  function tell(words) {
    const place = byId("toast");
    place.textContent = words;
    place.hidden = false;
    clearTimeout(hiding);
    hiding = setTimeout(() => { place.hidden = true; }, 10000);
  }
  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, xhr, successful } = event.detail;
    const teller = elt.closest("[data-tells]");
    if (!teller || !successful || xhr.status === 204) return;
    if (teller.id === "steer") {
      byId("steer-result").textContent = xhr.responseText;
      byId("steer-result").hidden = false;
      teller.reset();
    } else tell(xhr.responseText);
    document.body.dispatchEvent(new CustomEvent("corral:tick"));
  });

  // --- long texts
  document.addEventListener("click", async (event) => {
    const opener = event.target.closest("[data-reads]");
    if (!opener) return;
    const text = byId("reader-text");
    byId("reader-title").textContent = opener.dataset.title;
    text.textContent = "reading it…";
    byId("reader").showModal();
    const answer = await fetch(opener.dataset.reads);
    text.textContent = answer.ok ? await answer.text() : (await answer.json().catch(() => ({}))).detail ?? `the server said ${answer.status}`;
  });

  // --- keys
  for (const key of ["s", "p", "c", "m"]) corral.keys[key] = () => document.querySelector(`[data-run-key="${key}"]`)?.click();
  corral.keys.l = () => {
    byId("log").scrollIntoView({ block: "start" });
    corral.log.focus();
  };
})();
