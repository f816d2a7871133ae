// Runs the engine beside the page. Messages in: open and part, then show and edit,
// each with a number; what a newer one overtakes is left off between two answers.
"use strict";

const WRITTEN = 14; // tokens that the model goes on with
let engine = null;
let opening = null; // a part may come before there is room for it
let newest = 0;

onmessage = ({ data }) => {
  if (data.id) newest = data.id;
  steps[data.do](data).catch((error) => {
    postMessage({ id: data.id, failed: String(error.message || error) });
  });
};

const steps = {
  async open({ model }) {
    opening = Weights.make(model.bytes, decoded(model.kernel));
    engine = { model, weights: await opening, left: model.parts };
  },

  async part({ at, text }) {
    (await opening).file.set(decoded(text), at);
    engine.left -= 1;
    if (engine.left) return;
    const { model: told, weights } = engine;
    const factor = weights.memory.buffer.slice(told.weights, told.bytes);
    const model = new Model(weights, told.config);
    const vocabulary = new Vocabulary(model, new Float64Array(factor));
    const words = new BytePairs(told.tokenizer);
    engine = { model, vocabulary, words, examples: told.examples, before: new Map() };
    postMessage({ ready: true, V: model.V, layers: told.examples.layers });
  },

  /** A prompt of the reader's: what the model writes after it is taken for the secret. */
  async prompt({ id, text }) {
    const { model, words } = engine;
    const start = words.encode(text);
    if (!start.length) throw new Error("Type a few words first.");
    if (start.length > 80) throw new Error("The prompt is longer than 80 tokens.");
    const ids = [...start, ...model.write(start, 6, [], 0)];
    if (ids.length < start.length + 2) throw new Error("The model ends here at once.");
    const said = ids.slice(start.length).map((one, i) => [one, start.length + i]);
    const rarest = said.filter(([one]) => words.decode([one]).trim());
    rarest.sort((one, other) => other[0] - one[0] || one[1] - other[1]);
    const T = rarest.slice(0, 2).map(([, p]) => p).sort((p, q) => p - q);
    postMessage({ id, secret: { name: "own", ids, start: start.length, T } });
  },

  async show({ id, secret }) {
    await measure(id, secret, "before", []);
  },

  async edit({ id, secret, how, hp }) {
    if (await stale(id)) return;
    const { vocabulary } = engine;
    const start = performance.now();
    const { moves, unreached } = how === "columns"
      ? unlearn(vocabulary, [secret], hp) : leastSquares(vocabulary, secret, hp.r_h);
    const found = moves.map(({ layer, t, neurons, c, S }) => ({ layer, t, neurons, c, S }));
    const ms = performance.now() - start;
    postMessage({ id, when: "after", moves: found, unreached, ms });
    await measure(id, secret, "after", moves);
  },
};

/** Everything that the page shows of a secret, with an edit or without, bit by bit. */
async function measure(id, secret, when, moves) {
  const { model, words, examples, before } = engine;
  const tell = (found) => postMessage({ id, when, ...found });
  const places = range(secret.start, secret.ids.length);
  const tokens = places.map((p) => words.decode([secret.ids[p]]));
  tell({ tokens, ranks: ranksByLayer(model, secret.ids, places, moves) });
  const jobs = [["says", () => written(secret, moves)]];
  if (secret.other) jobs.push(["other", () => written(secret.other, moves)]);
  const kept = examples.kept.filter((one) => one.name !== secret.name).slice(0, 3);
  for (const one of kept) jobs.push([one.name, () => written(one, moves)]);
  jobs.push(["prose", () => model.loss(words.encode(examples.prose), moves)]);
  for (const [what, job] of jobs) {
    const key = `${secret.ids} ${what}`;
    if (await stale(id)) return;
    const found = moves.length ? job() : before.get(key) ?? job();
    if (!moves.length) before.set(key, found);
    tell({ [what]: found });
  }
  tell({ done: true });
}

/** What the model writes after a prompt, and whether that is the secret. */
function written({ ids, start }, moves) {
  const { model, words } = engine;
  const some = model.write(ids.slice(0, start), WRITTEN, moves, 0);
  const secret = ids.slice(start);
  return { text: words.decode(some), said: secret.every((t, i) => t === some[i]) };
}

/** Lets newer messages in, and says whether one of them has come. */
async function stale(id) {
  await new Promise((done) => setTimeout(done));
  return id !== newest;
}

function range(from, to) {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
