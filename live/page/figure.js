// REVS live in the page: the controls and what they show. Nothing happens before the
// click; the model runs in a worker, so that the page never waits for it.
"use strict";

const revsLive = (() => {
  const root = document.getElementById("revs-live");
  const base = document.currentScript.src.replace(/[^/]*$/, "");
  const find = (name) => root.querySelector(`[data-live="${name}"]`);
  const SIMD = Uint8Array.of(
    0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8,
    0, 65, 0, 253, 15, 253, 98, 11
  );
  const SETTINGS = { r_h: 1000, r_n: 7800, neurons: 90, how: "columns" };
  const nothing = { before: {}, after: null, pending: {} };
  const state = { ...SETTINGS, ...nothing, secret: null, token: 0, id: 0, from: 0 };
  let model, worker, loaded = 0;

  /** One sentence why the model cannot run here; nothing if it can. */
  function obstacle() {
    if (!window.WebAssembly || !window.Worker || !WebAssembly.validate(SIMD)) {
      return "This browser cannot run the model (it lacks WebAssembly SIMD).";
    }
    if (navigator.deviceMemory && navigator.deviceMemory < 2) {
      return "This machine has too little memory to run the model.";
    }
    if (window.innerWidth < 600) {
      return "On a wide screen, the model behind this picture runs in the page.";
    }
    return "";
  }

  // --- loading: classic scripts, which also a page opened as a file may load -------

  function script(name) {
    return new Promise((done, failed) => {
      const one = document.createElement("script");
      one.src = base + name;
      one.onload = () => (one.remove(), done());
      one.onerror = () => failed(new Error(`${name} is not beside this page`));
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
    }
  }

  /** Called by worker.js: the worker's source, and what belongs to the model. */
  function start(source, told) {
    model = told;
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    worker = new Worker(address);
    worker.onmessage = ({ data }) => heard(data);
    worker.onerror = (event) => stop(event.message);
    worker.postMessage({ do: "open", model });
  }

  /** Called by each script of weights. */
  function part(at, text) {
    worker.postMessage({ do: "part", at, text });
    loaded += 1;
    find("bar").value = loaded / model.parts;
  }

  function stop(reason) {
    find("loading").hidden = true;
    find("sorry").textContent = `The model could not be run: ${reason}.`;
    find("sorry").hidden = false;
    if (worker) worker.terminate();
  }

  // --- asking the worker, and what it answers ----------------------------------------

  function ask(what, more) {
    state.id += 1;
    worker.postMessage({ id: state.id, do: what, ...more });
  }

  function choose(secret) {
    Object.assign(state, nothing, { secret, before: {}, pending: {} });
    state.token = secret.T[0] - secret.start;
    find("prompt").textContent = secret.prompt;
    state.from = state.id + 1;
    ask("show", { secret });
    busy(true);
  }

  function edit() {
    if (!state.before.done) return;
    ask("edit", { secret: state.secret, how: state.how, hp: settings() });
    busy(true);
  }

  /** The sliders in the method's terms: the paper's ε are a third of r_h, a 20th of r_n. */
  function settings() {
    const { r_h, r_n, neurons } = state;
    const eps = { eps_r_h: Math.floor(r_h / 3), eps_r_n: Math.floor(r_n / 20) };
    return { r_h, r_n, n_max: neurons, k: neurons, ...eps };
  }

  function undo() {
    Object.assign(state, { after: null, pending: {}, id: state.id + 1, from: state.id + 1 });
    busy(false);
    draw();
    say("The edit is undone: the model is as it was.");
  }

  function heard(data) {
    if (data.ready) return ready(data);
    if (data.failed && !state.secret) return stop(data.failed);
    if (data.id < state.from) return;
    if (data.failed) return busy(false), say(data.failed);
    if (data.secret) return chosen(data.secret);
    if (!data.when) return;
    if (data.when === "before") Object.assign(state.before, data);
    else if (state.pending.id === data.id) Object.assign(state.pending, data);
    else state.pending = data;
    // an edit shows once its ranks are there, also one that a newer one will overtake;
    // what it has not told yet stays as it was
    if (state.pending.ranks) state.after = { ...state.after, ...state.pending };
    draw();
    if (data.done && data.id === state.id) finished(data.when);
  }

  function ready({ V }) {
    Object.assign(model, { V });
    state.examples = model.examples;
    find("loading").hidden = true;
    find("panel").hidden = false;
    say("The model is here; its first edit is made …");
    const option = ({ name }, i) => `<option value="${i}">${name}</option>`;
    const own = '<option value="own">a prompt of yours</option>';
    find("secret").innerHTML = model.examples.secrets.map(option).join("") + own;
    choose(model.examples.secrets[0]);
  }

  function chosen(secret) {
    choose({ ...secret, prompt: find("own").value });
  }

  function finished(when) {
    busy(false);
    root.dataset.state = when;
    if (when === "before") return edit();
    const { after, before, token } = state;
    const last = (found) => found.ranks.at(-1)[token];
    say(
      `${many(after)} moved. Rank of ${before.tokens[token]} at the end: ` +
      `${last(before)} before, ${last(after)} after. The model now writes: ${after.says.text}`
    );
  }

  // --- drawing ---------------------------------------------------------------------

  function draw() {
    const { before, token, r_h } = state;
    const { after } = state;
    if (!before.ranks) return;
    const ranks = (found) => found.ranks.map((row) => row[token]);
    find("chart").innerHTML = chart({
      layers: model.examples.layers, V: model.V, r_h, token: before.tokens[token].trim(),
      before: ranks(before), after: after && ranks(after), moved: moved(after),
    });
    const ends = [before, after].filter(Boolean).map((one) => ranks(one).at(-1));
    const said = `Rank of ${before.tokens[token]} after the last layer: ${ends.join(" before, ")}`;
    find("chart").setAttribute("aria-label", said + (after ? " after the edit" : ""));
    tokens();
    find("says-before").innerHTML = spoken(before.says);
    find("says-after").innerHTML = after ? spoken(after.says) : "was not edited.";
    stays(before, after || {});
    neurons(after);
    find("code").textContent = python();
    for (const name of ["r_h", "r_n", "neurons"]) {
      find(`${name}-value`).textContent = state[name].toLocaleString("en-US");
    }
    for (const name of ["r_n", "neurons"]) find(name).disabled = state.how !== "columns";
    find("undo").disabled = !state.after;
  }

  /** Neurons moved in each layer; a least-squares write moves all of a layer a little. */
  function moved(after) {
    return model.examples.layers.map((_, l) => {
      const some = after ? after.moves.filter(({ layer }) => layer === l) : [];
      const those = ({ neurons, c }) => [...neurons].filter((_, i) => c[i]);
      return new Set(some.flatMap(those)).size;
    });
  }

  function many(after) {
    const layers = moved(after);
    if (state.how === "squares") return `All neurons of ${layers.filter(Boolean).length} layers`;
    return `${total(layers).toLocaleString("en-US")} neurons`;
  }

  function tokens() {
    const { before, after, secret, token } = state;
    const buttons = before.tokens.map((text, i) => {
      const chosen = secret.T.includes(secret.start + i);
      const rank = (after && after.ranks ? after : before).ranks.at(-1)[i];
      const pressed = `aria-pressed="${i === token}" data-token="${i}"`;
      const kind = chosen ? 'class="chosen" title="one of the two that REVS demotes"' : "";
      const inner = `${escaped(text)}<small>${rank}</small>`;
      return `<button type="button" ${pressed} ${kind}>${inner}</button>`;
    });
    const held = document.activeElement && document.activeElement.dataset.token;
    find("tokens").innerHTML = buttons.join("");
    if (held) find("tokens").querySelector(`[data-token="${held}"]`).focus();
  }

  function spoken(says) {
    if (!says) return "…";
    const mark = says.said ? '<strong class="leak">says the secret</strong>' : "writes";
    return `${mark}: <q>${escaped(says.text)}</q>`;
  }

  /** The rest, line by line: the same number elsewhere, other numbers, general text. */
  function stays(before, after) {
    const { secret, examples } = state;
    const kept = examples.kept.filter(({ name }) => name !== secret.name).slice(0, 3);
    const cell = (found, good) => {
      if (!found) return "…";
      const kind = found.said === good ? "good" : "bad";
      const word = found.said ? "says it" : `<q>${escaped(found.text.slice(0, 12))}…</q>`;
      return `<span class="${kind}" title="${escaped(found.text)}">${word}</span>`;
    };
    const line = (name, was, is) => {
      const now = state.after ? is : "";
      return `<tr><th scope="row">${name}</th><td>${was}</td><td>${now}</td></tr>`;
    };
    const lines = kept.map(({ name }) =>
      line(`${name} (should stay)`, cell(before[name], true), cell(after[name], true)));
    if (secret.other) {
      const title = `${secret.name}, another sentence (should go)`;
      lines.unshift(line(title, cell(before.other, true), cell(after.other, false)));
    }
    const perplexity = (loss) => (loss === undefined ? "…" : Math.exp(loss).toFixed(0));
    const title = `Perplexity of “${examples.prose}” (should stay)`;
    lines.push(line(title, perplexity(before.prose), perplexity(after.prose)));
    find("stays").innerHTML = lines.join("");
  }

  function neurons(after) {
    const moves = after ? after.moves : [];
    const all = moves.flatMap(({ layer, neurons, c }) =>
      Array.from(neurons, (n, i) => ({ layer: model.examples.layers[layer], n, c: c[i] })));
    const far = (a, b) => Math.abs(b.c) - Math.abs(a.c);
    const most = all.filter(({ c }) => c).sort(far).slice(0, 12);
    find("neurons-list").innerHTML = most.map(({ layer, n, c }) =>
      `<tr><td>${layer}</td><td>${n}</td><td>${c.toPrecision(3)}</td></tr>`).join("");
    find("how-many").textContent = after ? many(after) : "0 neurons";
    const missed = after && after.unreached;
    find("missed").textContent = missed ? ` In ${missed} of them rank r_n is out of reach.` : "";
  }

  function python() {
    const { secret, how } = state;
    const texts = [secret.prompt, state.before.tokens.join("")];
    const [prompt, said] = texts.map((one) => JSON.stringify(one));
    const first = "from companion.data import live\n\ndecoder = live.load()\n";
    if (how === "columns") {
      const hp = JSON.stringify(settings()).replace(/([:,])/g, "$1 ");
      const asked = `decoder.model, decoder.tokenizer, [(${prompt}, ${said})], ${hp}`;
      return `import revs\n${first}edit = revs.unlearn(${asked})`;
    }
    const more =
      "from revs.method import least_squares\nfrom revs.model.targets import Record, encode\n";
    const target = `Record("", "text", "", ${prompt}, ${said}, "")`;
    const hp = `least_squares.Hyperparameters(r_h=${state.r_h}, mu=0)`;
    return `${more}${first}target = encode(${target}, decoder.tokenizer)\n` +
      `edit = least_squares.unlearn(decoder, [target], ${hp})`;
  }

  function say(text) {
    find("status").textContent = text;
  }

  function busy(yes) {
    root.classList.toggle("busy", yes);
    if (yes) root.dataset.state = "busy";
    root.setAttribute("aria-busy", yes);
  }

  const total = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

  // --- controls ----------------------------------------------------------------------

  /** A slider's place, 0 to 1000, as a rank: r_h by ratios, the others evenly. */
  const scale = {
    r_h: (place) => Math.round(3 * (5000 / 3) ** (place / 1000)),
    r_n: (place) => Math.round(10 + (place / 1000) * (0.97 * model.V - 10)),
    neurons: (place) => Math.max(1, Math.round((place / 1000) * 200)),
  };
  const place = {
    r_h: (r) => (1000 * Math.log(r / 3)) / Math.log(5000 / 3),
    r_n: (r) => (1000 * (r - 10)) / (0.97 * model.V - 10),
    neurons: (n) => n * 5,
  };

  function set(some) {
    Object.assign(state, some);
    for (const name of Object.keys(place)) {
      if (!(name in some)) continue;
      find(name).value = Math.round(place[name](state[name]));
      find(name).setAttribute("aria-valuetext", `${state[name]}`);
    }
    for (const one of root.querySelectorAll('[name="live-how"]')) {
      one.checked = one.value === state.how;
    }
    edit();
    draw();
  }

  function listen() {
    find("load").addEventListener("click", () => load().catch((error) => stop(error.message)));
    for (const name of Object.keys(scale)) {
      find(name).addEventListener("input", (event) => {
        state[name] = scale[name](+event.target.value);
        event.target.setAttribute("aria-valuetext", `${state[name]}`);
        edit();
        draw();
      });
    }
    root.addEventListener("change", ({ target }) => {
      if (target.name === "live-how") set({ how: target.value });
    });
    root.addEventListener("click", ({ target }) => {
      const token = target.closest("[data-token]");
      if (token) (state.token = +token.dataset.token), draw();
      const tried = target.closest("[data-try]");
      if (tried && worker) set({ ...SETTINGS, ...JSON.parse(tried.dataset.try) });
    });
    find("secret").addEventListener("change", ({ target }) => {
      find("own-form").hidden = target.value !== "own";
      if (target.value === "own") find("own").focus();
      else choose(model.examples.secrets[+target.value]);
    });
    find("own-form").addEventListener("submit", (event) => {
      event.preventDefault();
      busy(true);
      ask("prompt", { text: find("own").value });
    });
    find("undo").addEventListener("click", undo);
    find("copy").addEventListener("click", async () => {
      const copy = async () => navigator.clipboard.writeText(python());
      const copied = await copy().then(() => true, () => false);
      say(copied ? "Copied." : "The browser does not allow copying: select the lines below.");
      find("code").closest("details").open = true;
    });
  }

  const reason = obstacle();
  find("offer").hidden = Boolean(reason);
  find("sorry").hidden = !reason;
  find("sorry").textContent = reason;
  if (!reason) listen();
  return { start, part, state, choose, set, defaults: SETTINGS };
})();
