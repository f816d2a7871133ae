// Runs the engine beside the page. Messages in: open and part, then show and edit,
// each with a number; what a newer one overtakes is left off between two answers.
"use strict";

const WRITTEN = 14; // tokens that the model goes on with
let engine, opening, newest; // a part may come while its memory is opening

onmessage = ({ data }) => {
  if (data.id) newest = data.id;
  steps[data.do](data).catch((error) => {
    postMessage({ id: data.id, failed: String(error.message || error) });
  });
};

const steps = {
  async open({ model }) {
    opening = Weights.make(model.bytes, Uint8Array.from(model.kernel));
    engine = { model, left: model.parts, weights: await opening };
  },

  /** A part of the weights: each character of `text` holds two bytes. */
  async part({ at, text }) {
    const weights = await opening;
    const { model: told } = engine;
    const pairs = new Uint16Array(weights.memory.buffer, at, text.length);
    for (let i = 0; i < pairs.length; i++) pairs[i] = text.charCodeAt(i) ^ told.flip;
    if (--engine.left) return;
    const factor = weights.memory.buffer.slice(told.weights, told.bytes);
    const model = new Model(weights, told.config);
    const vocabulary = new Vocabulary(model, new Float64Array(factor));
    engine = { model, vocabulary, words: new BytePairs(told.tokenizer), examples: told.examples };
    postMessage({ ready: true });
  },

  /** A prompt of the reader's: what the model writes after it is taken for the secret. */
  async prompt({ id, text }) {
    const { model, words } = engine;
    const start = words.encode(text);
    if (!start.length) throw new Error("Type a few words first.");
    if (start.length > 80) throw new Error("The prompt is longer than 80 tokens.");
    const ids = [...start, ...model.write(start, 6, [], 0)];
    if (ids.length < start.length + 2) throw new Error("The model ends here at once.");
    const said = ids.map((one, p) => [one, p]).slice(start.length);
    const rarest = said.filter(([one]) => words.decode([one]).trim());
    rarest.sort((one, other) => other[0] - one[0] || one[1] - other[1]);
    const T = rarest.slice(0, 2).map(([, p]) => p).sort((p, q) => p - q);
    postMessage({ id, secret: { prompt: text, ids, start: start.length, T } });
  },

  show: ({ id, secret }) => measure(id, secret, "before", []),

  async edit({ id, secret, how, hp }) {
    if (await stale(id)) return;
    const { moves, unreached } = how === "columns"
      ? unlearn(engine.vocabulary, [secret], hp)
      : leastSquares(engine.vocabulary, secret, hp.r_h);
    const plain = moves.map(({ layer, t, neurons, c }) => ({ layer, t, neurons, c }));
    await measure(id, secret, "after", moves, { moves: plain, unreached });
  },
};

/** Everything that the page shows of a secret, with an edit or without, bit by bit. */
async function measure(id, secret, when, moves, told) {
  const { model, words, examples } = engine;
  const tell = (found) => postMessage({ id, when, ...found });
  const places = secret.ids.map((_, p) => p).slice(secret.start);
  const tokens = places.map((p) => words.decode([secret.ids[p]]));
  tell({ ...told, tokens, ranks: ranksByLayer(model, secret.ids, places, moves) });
  const kept = examples.kept.map((one) => [one.name, one]);
  for (const [what, one] of [["says", secret], ["other", secret.other], ...kept]) {
    if (await stale(id)) return;
    if (one) tell({ [what]: written(one, moves) });
  }
  if (await stale(id)) return;
  tell({ prose: model.loss(words.encode(examples.prose), moves), done: true });
}

/** What the model writes after a prompt, and whether that is the secret. */
function written({ ids, start }, moves) {
  const { model, words } = engine;
  const some = model.write(ids.slice(0, start), WRITTEN, moves, 0);
  return { text: words.decode(some), said: ids.slice(start).every((t, i) => t === some[i]) };
}

/** Lets newer messages in, and says whether one of them has come. */
async function stale(id) {
  await new Promise((done) => setTimeout(done));
  return id !== newest;
}
