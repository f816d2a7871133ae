// REVS live in the page: the controls and what they show. Nothing happens before the
// click; the model runs in a worker, so that the page never waits for it.
"use strict";

const revsLive = (() => {
  const root = document.getElementById("revs-live");
  const base = document.currentScript.src.replace(/[^/]*$/, "");
  const find = (name) => root.querySelector(`[data-live="${name}"]`);
  const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const say = (text) => (find("status").textContent = text);
  const SIMD = "AGFzbQEAAAABBQFgAAF7AwIBAAoKAQgAQQD9D/1iCw=="; // a function that needs it
  const SETTINGS = { r_h: 1000, r_n: 7800, neurons: 90, how: "columns" };
  // a slider's place, 0 to 1000, as a rank, and back: r_h by ratios, the others evenly
  const SLIDERS = {
    r_h: [(place) => 3 * 1667 ** (place / 1000), (r) => 1000 * Math.log(r / 3) / Math.log(1667)],
    r_n: [(place) => 10 + 9.4 * place, (r) => (r - 10) / 9.4],
    neurons: [(place) => Math.max(1, place / 5), (n) => 5 * n],
  };
  const state = { ...SETTINGS, before: {}, after: null, secret: null, token: 0, id: 0, from: 0 };
  let model, worker;

  /** One sentence why the model cannot run here; nothing if it can. */
  function obstacle() {
    const simd = Uint8Array.from(atob(SIMD), (one) => one.charCodeAt(0));
    const able = window.WebAssembly && window.Worker && WebAssembly.validate(simd);
    if (!able) return "This browser lacks WebAssembly SIMD, which the model needs.";
    if (navigator.deviceMemory < 2) return "This machine has too little memory for the model.";
    return window.innerWidth < 600 ? "On a wider screen the model runs in the page." : "";
  }

  // --- loading: classic scripts, which also a page opened as a file may load -------

  function script(name) {
    return new Promise((onload, onerror) => {
      const one = Object.assign(document.createElement("script"), { onload, onerror });
      one.src = base + name;
      document.head.append(one);
    });
  }

  async function load() {
    find("offer").hidden = true;
    find("loading").hidden = false;
    say("Loading the model …");
    await script("worker.js");
    for (let n = 0; n < model.parts; n++) {
      await script(`weights-${String(n).padStart(2, "0")}.js`);
      find("bar").value = (n + 1) / model.parts;
    }
  }

  /** Called by worker.js: the worker's source, the controls, and what belongs to the model. */
  function start(source, panel, told) {
    model = told;
    root.classList.add("open");
    find("status").insertAdjacentHTML("beforebegin", panel);
    worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    worker.onmessage = ({ data }) => heard(data);
    worker.onerror = (event) => stop(event.message);
    worker.postMessage({ do: "open", model });
  }

  /** Called by each script of weights. */
  const part = (at, text) => worker.postMessage({ do: "part", at, text });

  function stop(reason) {
    find("loading").hidden = true;
    say(`The model could not be run: ${reason}.`);
    if (worker) worker.terminate();
  }

  // --- asking the worker, and what it answers ----------------------------------------

  function ask(what, more) {
    state.id += 1;
    root.dataset.state = "busy";
    worker.postMessage({ id: state.id, do: what, ...more });
  }

  function choose(secret) {
    const token = secret.T[0] - secret.start;
    Object.assign(state, { secret, token, before: {}, after: null, from: state.id + 1 });
    find("prompt").textContent = secret.prompt;
    find("other").hidden = !secret.other;
    find("secret").value = model.examples.secrets.indexOf(secret);
    ask("show", { secret });
  }

  function set(some) {
    Object.assign(state, some);
    if (state.before.done) ask("edit", { secret: state.secret, how: state.how, hp: settings() });
    draw();
  }

  /** The sliders in the method's terms: the paper's ε are a third of r_h, a 20th of r_n. */
  function settings() {
    const { r_h, r_n, neurons } = state;
    const eps = { eps_r_h: Math.floor(r_h / 3), eps_r_n: Math.floor(r_n / 20) };
    return { r_h, r_n, n_max: neurons, k: neurons, ...eps };
  }

  function heard(data) {
    if (data.ready) return ready();
    if (data.failed && !state.secret) return stop(data.failed);
    if (data.id < state.from) return;
    if (data.failed) return (root.dataset.state = "failed"), say(data.failed);
    if (data.secret) return choose(data.secret);
    // what an edit has not told yet stays as the one before it had it
    state[data.when] = { ...state[data.when], ...data };
    draw();
    if (data.done && data.id === state.id) finished(data.when);
  }

  function ready() {
    state.examples = model.examples;
    find("loading").hidden = true;
    find("panel").hidden = false;
    find("panel").focus({ preventScroll: true });
    say("The model is here; its first edit is made …");
    choose(model.examples.secrets[0]);
  }

  function finished(when) {
    root.dataset.state = when;
    if (when === "before") return set({});
    const { after, token } = state;
    const rank = `rank ${after.ranks.at(-1)[token]} at the end`;
    say(`${many()} moved; ${after.tokens[token]} has ${rank}. Now it says: ${after.says.text}`);
  }

  // --- drawing ---------------------------------------------------------------------

  function draw() {
    const { before, after, token, r_h } = state;
    if (!before.ranks) return;
    const ranks = (found) => found && found.ranks.map((row) => row[token]);
    const name = before.tokens[token].trim();
    const own = { before: ranks(before), after: ranks(after), moved: moved(), token: name };
    const V = model.config.vocab_size;
    find("chart").innerHTML = chart({ layers: model.examples.layers, V, r_h, ...own });
    const is = after ? `, ${own.after.at(-1)} after the edit` : "";
    const said = `Rank of ${name} after the last layer: ${own.before.at(-1)} before${is}`;
    find("chart").setAttribute("aria-label", said);
    for (const name of Object.keys(SLIDERS)) {
      find(`${name}-value`).textContent = state[name].toLocaleString("en-US");
      find(name).setAttribute("aria-valuetext", state[name]);
      find(name).disabled = name !== "r_h" && state.how !== "columns";
    }
    find("code").textContent = python();
    tokens();
    texts();
    neurons();
  }

  /** Neurons moved in each layer; a least-squares write moves all of a layer a little. */
  function moved() {
    const moves = state.after ? state.after.moves : [];
    return model.examples.layers.map((_, l) => {
      const own = moves.filter(({ layer }) => layer === l);
      return new Set(own.flatMap(({ neurons, c }) => [...neurons].filter((_, i) => c[i]))).size;
    });
  }

  function many() {
    if (state.how === "squares") return `All neurons of ${moved().filter(Boolean).length} layers`;
    return `${moved().reduce((a, b) => a + b).toLocaleString("en-US")} neurons`;
  }

  function tokens() {
    const { before, after, secret, token } = state;
    const held = document.activeElement.dataset.token;
    find("tokens").innerHTML = before.tokens.map((text, i) => {
      const kind = secret.T.includes(secret.start + i) ? "chosen" : "";
      const told = `aria-pressed="${i === token}" data-token="${i}" class="${kind}"`;
      const inner = `${escaped(text)}<small>${(after || before).ranks.at(-1)[i]}</small>`;
      return `<button type="button" ${told}>${inner}</button>`;
    }).join("");
    if (held) find("tokens").querySelector(`[data-token="${held}"]`).focus();
  }

  /** What is written and the loss on general text, wherever the page wants one of them. */
  function texts() {
    for (const place of root.querySelectorAll("[data-what]")) {
      const { when, what } = place.dataset;
      const found = state[when] && state[when][what];
      if (found === undefined || found === null) place.textContent = "…";
      else if (what === "prose") place.textContent = Math.exp(found).toFixed(0);
      else place.innerHTML = spoken(found);
    }
  }

  function spoken({ said, text }) {
    const mark = said ? '<strong class="leak">says the secret</strong>' : "writes";
    return `${mark}<q>${escaped(text)}</q>`;
  }

  function neurons() {
    const { moves, unreached } = state.after || { moves: [] };
    const all = moves.flatMap(({ layer, neurons, c }) =>
      Array.from(neurons, (n, i) => [model.examples.layers[layer], n, c[i]]));
    const most = all.filter(([, , c]) => c).sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
    find("neurons-list").innerHTML = most.slice(0, 12).map(([layer, n, c]) =>
      `<tr><td>${layer}</td><td>${n}</td><td>${c.toPrecision(3)}</td></tr>`).join("");
    find("how-many").textContent = many();
    find("missed").textContent = unreached ? ` For ${unreached} r_n is out of reach.` : "";
  }

  /** The lines of Python that do the same on the same weights. */
  function python() {
    const { secret, how, before, r_h, r_n, neurons } = state;
    const pair = [secret.prompt, before.tokens.join("")].map((one) => JSON.stringify(one));
    const call = how === "columns"
      ? `revs.unlearn(decoder.model, decoder.tokenizer, [(${pair.join(", ")})], ` +
        `live.settings(r_h=${r_h}, r_n=${r_n}, neurons=${neurons}))`
      : `live.least_squares(decoder, ${pair.join(", ")}, r_h=${r_h})`;
    return `import revs\nfrom companion.data import live\n\ndecoder = live.load()\nedit = ${call}`;
  }

  // --- controls ----------------------------------------------------------------------

  const clicks = {
    load: () => load().catch(() => stop("a part of it is not beside this page")),
    token: (i) => ((state.token = +i), draw()),
    settings: (some) => put(JSON.parse(some)),
    copy: () => navigator.clipboard.writeText(python()).then(
      () => say("Copied."), () => say("Copying is not allowed here: select the lines above.")),
    undo() {
      Object.assign(state, { after: null, id: state.id + 1, from: state.id + 1 });
      root.dataset.state = "before";
      draw();
      say("The edit is undone: the model is as it was.");
    },
  };

  /** Settings laid over the defaults, and the controls where these want them. */
  function put(settings) {
    set({ ...SETTINGS, ...settings });
    for (const [name, [, place]] of Object.entries(SLIDERS)) find(name).value = place(state[name]);
    root.querySelector(`[value="${state.how}"]`).checked = true;
  }

  root.addEventListener("click", ({ target }) => {
    const { live, ...more } = (target.closest("button") || root).dataset;
    for (const [what, value] of Object.entries({ [live]: "", ...more })) clicks[what]?.(value);
  });
  root.addEventListener("input", ({ target: { dataset, value, name } }) => {
    const slider = SLIDERS[dataset.live];
    if (slider) set({ [dataset.live]: Math.round(slider[0](+value)) });
    if (name === "live-how") set({ how: value });
    if (dataset.live === "secret") choose(model.examples.secrets[value]);
  });
  root.addEventListener("submit", (event) => {
    event.preventDefault();
    ask("prompt", { text: find("own").value });
  });

  find("offer").hidden = Boolean(obstacle());
  say(obstacle());
  return { start, part, state, choose, set: put, defaults: SETTINGS };
})();
