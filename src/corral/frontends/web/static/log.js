// The log of a run: its end first, older pages on demand, new lines as they come. Whatever an agent wrote is text and nothing else.
"use strict";
(() => {
  const MOST_ROWS = 2000, MOST_TEXT = 3000, MOST_QUEUED = 4000, END = 2 ** 53;
  const place = document.getElementById("lines");
  const run = () => document.getElementById("run");
  const wanted = { kind: "all", words: "", attempt: "" };
  const calls = new Map(); // attempt and call -> the row that shows it
  let queue = [], due = false, loading = null, round = 0;
  let older = null, newer = null; // where reading continues in each direction; null: there is no more
  let unseen = 0;

  // --- text

  const ANSI = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
  const UNSEEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
  const plain = (text) => String(text ?? "").replaceAll("\r\n", "\n").replace(ANSI, "").replace(UNSEEN, "\ufffd");

  function make(tag, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = plain(text);
    return made;
  }

  /** A text that may be very long: its beginning, and the rest when it is asked for. */
  function long(tag, name, text) {
    const whole = plain(text);
    const made = make(tag, name);
    made.dir = "auto";
    if (whole.length <= MOST_TEXT) {
      made.textContent = whole;
      return made;
    }
    made.textContent = whole.slice(0, MOST_TEXT) + "… ";
    const more = make("button", "link", `show all ${whole.length.toLocaleString("en")} characters`);
    more.type = "button";
    more.onclick = () => { made.textContent = whole; };
    made.append(more);
    return made;
  }

  const first = (text, most = 160) => {
    const line = plain(text).trim().split("\n", 1)[0];
    return line.length > most ? line.slice(0, most - 1) + "…" : line;
  };

  // --- rows: one for each event

  function folded(name, sign, title, parts, open = false) {
    const made = make("details", name);
    made.open = open;
    const head = make("summary");
    head.append(make("span", "sign", sign), " ", title);
    made.append(head, ...parts);
    return made;
  }

  function toolTitle(tool, input) {
    const title = make("span");
    title.append(make("strong", "", tool), " ", make("code", "", first(input)));
    return title;
  }

  const SHOWN = {
    said: (e) => long("div", "text", e.text),
    reported: (e) => long("div", "text", `reports${e.percent ? ` (${Math.round(e.percent)} %)` : ""}: ${e.text}`),
    called_tool: (e) => folded("tool", "▸", toolTitle(e.tool, e.input ?? ""), e.input ? [long("pre", "", e.input)] : []),
    tool_returned: (e) => folded("tool" + (e.ok === false ? " bad" : ""), e.ok === false ? "✗" : "↳", make("span", "", e.ok === false ? "failed: " + first(e.output) : "returned " + first(e.output, 80)), [long("pre", "", e.output ?? "")]),
    changed: (e) => make("div", "text mono", "changed " + e.path),
    checked: (e) => {
      const check = e.check, good = check.exit_code === 0 && !check.note;
      const title = make("span");
      title.append(make("code", "", first(check.command)), ` ${good ? "passed" : check.note || `failed (${check.exit_code})`}`);
      return folded("tool" + (good ? " good" : " bad"), good ? "✓" : "✗", title, [long("pre", "", check.output || "It printed nothing.")]);
    },
    started: (e) => make("div", "text", "started" + (e.model ? ` (${e.model})` : "")),
    spent: (e) => make("div", "text", `spent ${e.usd == null ? "about $" + (e.computed_usd ?? 0).toFixed(4) : "$" + e.usd.toFixed(4)} (${e.tokens?.input ?? 0} in, ${e.tokens?.output ?? 0} out)`),
    asked: (e) => long("div", "text", `asks: ${e.question}${e.answer ? ` → ${e.answer}` : ""}`),
    planned: (e) => long("div", "text", "plans:\n" + e.steps.map((step) => `${{ completed: "✓", in_progress: "▸" }[step.status] ?? "·"} ${step.text}`).join("\n")),
    steer_taken: (e) => long("div", "text", "took in: " + e.text),
    limited: (e) => make("div", "text", "limited: " + e.message),
    ended: (e) => long("div", "text", e.ok ? "says it is done" + (e.text ? ": " + e.text : "") : "failed: " + (e.error ? `${e.error.class}: ${e.error.message}` : e.text)),
    unparsed: (e) => long("div", "text mono", e.line),
    rejected: (e) => make("div", "text", "output not taken: " + e.misfits.join("; ")),
    condensed: (e) => folded("tool", "⇥", make("span", "", `continues from summary ${e.number}: ${e.reason}`), [long("pre", "", e.summary)]),
    noted: (e) => make("div", "text", e.text),
    mailed: (e) => long("div", "text", `writes to ${e.to}: ${e.text}`),
    reached: (e) => make("div", "text", `${e.allowed ? "reached" : "was refused"} ${e.host}:${e.port}${e.reason ? ": " + e.reason : ""}`),
    moved: (e) => make("div", "text", `${e.what} ${e.status.replace("_", " ")}${e.reason ? ": " + e.reason : ""}`),
    status_changed: (e) => make("div", "text", `${e.kind} ${e.id} ${e.status.replace("_", " ")}${e.reason ? ": " + e.reason : ""}`),
    user_asked: (e) => make("div", "text", `waits for you: ${e.text}${e.entry ? ` (corral answer ${e.entry} ${e.ways})` : ""}`),
  };

  const wrong = (e) => ["limited", "rejected", "unparsed"].includes(e.type)
    || (e.type === "tool_returned" && e.ok === false) || (e.type === "ended" && !e.ok) || (e.type === "reached" && !e.allowed)
    || (e.type === "checked" && (e.check.exit_code !== 0 || !!e.check.note))
    || ((e.type === "status_changed" || e.type === "moved") && ["failed", "timed_out", "over_budget", "limited"].includes(e.status));
  const unpriced = (e) => e.type === "spent" && e.usd == null && e.computed_usd == null;
  const single = (e) => e.type === "status_changed" && e.kind === "node" && e.id === "main"; // the run says the same
  const KINDS = {
    all: (e) => !single(e) && e.type !== "context_used" && e.type !== "quota_reported" && !unpriced(e),
    said: (e) => ["said", "reported", "asked", "planned", "steer_taken", "mailed"].includes(e.type),
    tools: (e) => ["called_tool", "tool_returned", "changed", "reached", "checked"].includes(e.type),
    errors: (e) => wrong(e) && !single(e),
  };

  function words(value) {
    if (typeof value === "string") return value;
    return value && typeof value === "object" ? Object.values(value).map(words).join(" ") : "";
  }
  const fits = (e) => (!wanted.attempt || e.attempt === wanted.attempt) && KINDS[wanted.kind](e)
    && (!wanted.words || words({ ...e, type: "", at: "", run: "", node: "", attempt: "" }).toLowerCase().includes(wanted.words.toLowerCase()));

  function names() {
    try { return JSON.parse(document.getElementById("names").textContent); } catch { return {}; }
  }

  // Stores of before 0.2 contain these types under other names.
  const TYPES = { heeded: "steer_taken", filled: "context_used", rationed: "quota_reported" };

  function row(stored, who) {
    const e = { ...stored, type: TYPES[stored.type] ?? stored.type };
    const key = `${e.attempt} ${e.call}`;
    if (e.type === "tool_returned" && e.call && calls.has(key)) return void answered(calls.get(key), e);
    const made = make("div", `entry ${e.type}${wrong(e) ? " wrong" : ""}`);
    made.dataset.seq = e.seq;
    const time = make("time", "", e.at.slice(11, 19));
    time.dateTime = time.title = e.at;
    made.append(time, make("span", "who", who[e.attempt] ?? ""), (SHOWN[e.type] ?? ((other) => make("div", "text", other.type)))(e));
    if (e.type === "called_tool" && e.call) {
      calls.set(key, made);
      made.dataset.call = key;
    }
    return made;
  }

  /** Put what a tool returned under its call. */
  function answered(call, e) {
    const box = call.querySelector("details"), ok = e.ok !== false;
    box.querySelector(".sign").textContent = ok ? "✓" : "✗";
    box.classList.add(ok ? "good" : "bad");
    call.classList.toggle("wrong", !ok);
    if (!ok) box.querySelector("summary").append(" ", make("span", "", "failed: " + first(e.output, 100)));
    box.append(e.output ? long("pre", "result", e.output) : make("p", "faint", "It returned nothing."));
  }

  // --- the window over a long log

  const rows = () => place.querySelectorAll(":scope > .entry");
  const atEnd = () => place.scrollHeight - place.scrollTop - place.clientHeight < 40;

  function edge(where, text, load) {
    place.querySelector(`:scope > [data-edge="${where}"]`)?.remove();
    if (!text) return;
    const made = make("p", "edge");
    made.dataset.edge = where;
    if (load) {
      const button = make("button", "link", text);
      button.type = "button";
      button.onclick = load;
      made.append(button);
    } else made.textContent = text;
    place[where === "top" ? "prepend" : "append"](made);
  }

  function drop(which) {
    for (const gone of which) {
      if (gone.dataset.call) calls.delete(gone.dataset.call);
      gone.remove();
    }
  }

  function fragment(events) {
    const made = document.createDocumentFragment(), who = names();
    for (const e of events) {
      if (!fits(e)) continue;
      const one = row(e, who);
      if (one) made.append(one);
    }
    return made;
  }

  async function ask(more) {
    const query = new URLSearchParams({ ...more, kind: wanted.kind });
    if (wanted.words) query.set("q", wanted.words);
    if (wanted.attempt) query.set("attempt", wanted.attempt);
    const answer = await fetch(`/runs/${run().dataset.run}/lines?${query}`);
    if (!answer.ok) throw new Error(`the server said ${answer.status}`);
    return answer.json();
  }

  function edges() {
    if (older) edge("top", "older lines", loadOlder);
    else edge("top", rows().length ? "this is the beginning" : "");
    edge("bottom", newer ? "newer lines" : "", loadNewer);
    document.getElementById("newest").hidden = !newer && (atEnd() || !unseen);
    document.getElementById("newest").textContent = unseen ? `${unseen.toLocaleString("en")} new ↓` : "newest ↓";
    if (rows().length || older || newer) return;
    const narrow = wanted.kind !== "all" || wanted.words;
    edge("top", narrow ? "Nothing in this log is like that." : "Nothing yet. What its agents say, the tools they call and the files they change is shown here as it happens.");
  }

  /** One thing at a time; what was asked for before the log was narrowed anew is dropped. */
  async function once(work) {
    if (loading) return;
    const mine = round;
    loading = work();
    try {
      await loading;
    } catch (error) {
      if (mine === round) corral.complain(null, "the log cannot be read: " + error.message, "is `corral serve` still running?");
    } finally {
      if (mine === round) loading = null;
    }
  }

  async function reload() {
    round += 1;
    const mine = round;
    loading = null;
    calls.clear();
    place.replaceChildren();
    edge("top", "reading the log…");
    await once(async () => {
      const page = await ask({ before: END });
      if (mine !== round) return;
      place.replaceChildren(fragment(page.events));
      older = page.next || null;
      newer = null;
      unseen = 0;
      edges();
      place.scrollTop = place.scrollHeight;
    });
    if (mine !== round) return;
    place.dataset.ready = "";
    flush();
    if (older && !rows().length) loadOlder();
  }

  function loadOlder() {
    return once(async () => {
      const mine = round;
      edge("top", "reading older lines…");
      let found = 0, looked = 0;
      const parts = [];
      while (older && !found && looked < 20) { // a search may have to look far
        const page = await ask({ before: older });
        if (mine !== round) return;
        older = page.next || null;
        looked += 1;
        found += page.events.length;
        parts.unshift(page.events);
      }
      const high = place.scrollHeight, from = place.scrollTop;
      edge("top", "");
      place.prepend(fragment(parts.flat()));
      const grown = place.scrollHeight - high, all = rows();
      if (all.length > MOST_ROWS) {
        const far = [...all].slice(MOST_ROWS);
        newer = Number(far[0].previousElementSibling?.dataset.seq ?? far[0].dataset.seq) || newer;
        drop(far);
      }
      edges();
      place.scrollTop = from + grown;
    });
  }

  function loadNewer() {
    return once(async () => {
      const mine = round;
      const page = await ask({ after: newer });
      if (mine !== round) return;
      edge("bottom", "");
      place.append(fragment(page.events));
      newer = page.next || null;
      trimTop();
      edges();
      if (!newer) flush();
    });
  }

  function trimTop() {
    const all = rows();
    if (all.length <= MOST_ROWS) return;
    const far = [...all].slice(0, all.length - MOST_ROWS), high = place.scrollHeight;
    older = Number(all[far.length].dataset.seq);
    drop(far);
    place.scrollTop -= high - place.scrollHeight;
  }

  function newest() {
    if (newer) return reload();
    unseen = 0;
    place.scrollTop = place.scrollHeight;
    edges();
  }

  // --- what comes

  corral.onEvent((event) => {
    queue.push(event);
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; flush(); });
  });

  function flush() {
    if (loading || !("ready" in place.dataset)) return;
    if (queue.length > MOST_QUEUED) { // the tab was asleep: read the end anew
      queue = [];
      return void reload();
    }
    const all = rows(), last = Number(all[all.length - 1]?.dataset.seq ?? 0);
    const events = queue.filter((e) => e.seq > last);
    queue = [];
    if (!events.length) return;
    if (newer) {
      unseen += events.filter(fits).length;
      return edges();
    }
    const stuck = atEnd(), before = all.length;
    edge("bottom", "");
    place.append(fragment(events));
    if (!stuck) unseen += rows().length - before;
    trimTop();
    edges();
    if (stuck) place.scrollTop = place.scrollHeight;
  }

  place.addEventListener("scroll", () => {
    if (loading) return;
    if (older && place.scrollTop < 150) loadOlder();
    else if (newer && atEnd()) loadNewer();
    if (!newer && atEnd() && unseen) newest();
  }, { passive: true });
  document.getElementById("newest").onclick = newest;

  // --- narrowing it

  for (const button of document.querySelectorAll("[data-kind]")) {
    button.onclick = () => {
      for (const each of document.querySelectorAll("[data-kind]")) each.setAttribute("aria-pressed", String(each === button));
      wanted.kind = button.dataset.kind;
      reload();
    };
  }
  let typing;
  document.getElementById("log-find").oninput = (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      wanted.words = event.target.value.trim();
      reload();
    }, 250);
  };
  const scope = document.getElementById("log-scope");
  scope.onchange = () => look(scope.value ? run().dataset.attempt : "");

  /** Show the log of one attempt, or of the whole run. */
  function look(attempt) {
    if (attempt === wanted.attempt) return;
    wanted.attempt = attempt;
    reload();
  }
  corral.log = {
    /** The user has picked another attempt, or none. */
    picked() {
      const attempt = run().dataset.attempt, option = scope.options[1];
      option.hidden = !attempt;
      option.textContent = attempt ? `of ${names()[attempt] ?? attempt}` : "of this attempt";
      scope.value = attempt ? "attempt" : "";
      look(attempt);
    },
    focus: () => place.focus(),
  };
  wanted.attempt = run().dataset.attempt;
  corral.log.picked();
  reload();
})();
