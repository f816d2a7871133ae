// REVS on the model of model.js, as revs/method/ has it: Alg. 1 with its closed form,
// and the least-squares write. Ranks are 0-based: how many tokens are strictly ahead.
"use strict";

/** The vocabulary space: the one direction along which a token is demoted. */
class Vocabulary {
  /** `factor`: the Cholesky factor L of UᵀU, its lower triangle row by row. */
  constructor(model, factor) {
    Object.assign(this, { model, factor, known: new Map() });
  }

  /** d_t = (U†e_t) ⊘ γ, and w, what a step along it adds to every logit. */
  direction(t) {
    if (!this.known.has(t)) {
      const { model, factor } = this;
      const { d, weights } = model;
      const q = weights.numbers("model.embed_tokens.weight");
      const scale = weights.floats("model.embed_tokens.weight.scale")[t];
      const y = Float64Array.from({ length: d }, (_, i) => q[t * d + i] * scale);
      const L = (i, j) => factor[(i * (i + 1)) / 2 + j];
      for (let i = 0; i < d; i++) {
        for (let j = 0; j < i; j++) y[i] -= L(i, j) * y[j];
        y[i] /= L(i, i);
      }
      for (let i = d - 1; i >= 0; i--) {
        for (let j = i + 1; j < d; j++) y[i] -= L(j, i) * y[j];
        y[i] /= L(i, i);
      }
      const step = Float32Array.from(y, (value, i) => value / model.gamma[i]);
      this.known.set(t, { d: step, w: model.unembed(step) });
    }
    return this.known.get(t);
  }
}

/** The rank of t where a step S along its direction changes logits A by S·w. */
function rank(A, t, S = 0, w = null) {
  let ahead = 0;
  if (!w) for (let j = 0; j < A.length; j++) ahead += A[j] > A[t];
  else for (let j = 0; j < A.length; j++) ahead += A[j] + S * (w[j] - w[t]) > A[t];
  return ahead;
}

/**
 * The smallest demotion c < 0 at which t ranks r or lower in A + c·w; 0 if none.
 * Token j is passed at x = (A_j − A_t) / (w_t − w_j): downwards it goes ahead of t,
 * or, if it moves faster than t itself, falls behind.
 */
function demotion(A, w, t, r) {
  const slower = new Float32Array(A.length);
  const faster = new Float32Array(A.length);
  let [slow, fast, ahead] = [0, 0, 0];
  for (let j = 0; j < A.length; j++) {
    const lead = Math.fround(A[j] - A[t]);
    const slope = Math.fround(w[t] - w[j]);
    const x = lead / slope;
    if (slope === 0) ahead += lead > 0;
    else if (slope > 0 && x >= 0) ahead += 1;
    else if (slope > 0) slower[slow++] = x;
    else if (x < 0) ahead += 1, (faster[fast++] = x);
  }
  slower.subarray(0, slow).sort();
  faster.subarray(0, fast).sort();
  while (slow || fast) {
    const [one, other] = [slow ? slower[slow - 1] : -Infinity, fast ? faster[fast - 1] : -Infinity];
    const x = Math.max(one, other);
    if (one >= other) slow--, ahead++;
    else fast--, ahead--;
    const next = Math.max(slow ? slower[slow - 1] : -Infinity, fast ? faster[fast - 1] : -Infinity);
    if (ahead < r || next === x) continue;
    return next === -Infinity ? x - Math.max(Math.abs(x), 1) : (x + next) / 2;
  }
  return 0;
}

/** Alg. 1: demotes t after token ids, layer by layer; adds to `moves`. */
function unlearnToken(vocabulary, ids, t, hp, moves) {
  const { model } = vocabulary;
  const { d, w } = vocabulary.direction(t);
  const low = hp.r_h - hp.eps_r_h;
  let unreached = 0;
  model.forward(ids, {
    moves: moves.slice(),
    atLayer(l, a, h, x) {
      const at = joined(h.subarray(-model.d), x.subarray(-model.d));
      const logits = model.unembed(at);
      const [mlp, stream] = rows(logits, model.V);
      if (rank(mlp, t) >= hp.r_h + hp.eps_r_h || rank(stream, t) >= low) return [];
      const active = a.subarray(-model.ff);
      const order = Array.from(active.keys()).sort((i, j) => active[j] - active[i]);
      const some = order.slice(0, hp.k);
      const columns = new Float32Array(some.length * model.d);
      some.forEach((j, i) => columns.set(model.neuron(l, j, moves), i * model.d));
      const ranked = rows(model.unembed(columns), model.V)
        .map((A, i) => ({ A, j: some[i], r: rank(A, t) }))
        .sort((one, other) => one.r - other.r);
      const move = { layer: l, t, d, neurons: [], c: [] };
      let S = 0;
      for (const { A, j, r } of ranked.slice(0, hp.n_max)) {
        const there = r >= hp.r_n - hp.eps_r_n;
        const c = there ? 0 : Math.min(0, Math.fround(demotion(A, w, t, hp.r_n)));
        unreached += !there && c === 0;
        move.neurons.push(j);
        move.c.push(c);
        S = Math.fround(S + Math.fround(active[j] * c));
        if (rank(stream, t, S, w) >= low && rank(mlp, t, S, w) >= low) break;
      }
      moves.push(move);
      return [move];
    },
  });
  return unreached;
}

/** REVS on secrets {ids, T}: the text to the end of each secret, and what is demoted. */
function unlearn(vocabulary, secrets, hp) {
  const moves = [];
  let unreached = 0;
  for (const { ids, T } of secrets) {
    for (const p of T) {
      unreached += unlearnToken(vocabulary, ids.slice(0, p), ids[p], hp, moves);
    }
  }
  return { moves, unreached };
}

/**
 * The least-squares write, for one secret: in every layer, t's own shift S to rank r_h
 * in the stream, carried by m = (K·Kᵀ + λ·ā·I)⁻¹·K, K the activations where T is due.
 */
function leastSquares(vocabulary, { ids, T }, r_h, lambda = 0.01) {
  const { model } = vocabulary;
  const moves = [];
  model.forward(ids.slice(0, Math.max(...T)), {
    atLayer(l, a, h, x) {
      const row = (v, width, p) => v.subarray((p - 1) * width, p * width);
      const S = T.map((p) => {
        const A = model.unembed(row(x, model.d, p));
        const { w } = vocabulary.direction(ids[p]);
        return rank(A, ids[p]) < r_h ? demotion(A, w, ids[p], r_h) : 0;
      });
      const K = T.map((p) => row(a, model.ff, p));
      const gram = K.map((one) => K.map((other) => dot(one, other)));
      const bound = (lambda * gram.reduce((sum, g, i) => sum + g[i], 0)) / K.length;
      gram.forEach((g, i) => (g[i] += bound));
      const made = T.flatMap((p, i) => {
        if (!S[i]) return [];
        const share = solve(gram, T.map((_, j) => +(i === j)));
        const c = Float32Array.from({ length: model.ff }, (_, n) =>
          S[i] * K.reduce((sum, one, j) => sum + share[j] * one[n], 0));
        const { d } = vocabulary.direction(ids[p]);
        const move = { layer: l, t: ids[p], d, S: S[i], neurons: Array.from(c.keys()), c };
        return [move];
      });
      moves.push(...made);
      return made;
    },
  });
  return { moves, unreached: 0 };
}

/** Of some positions of a text, the rank that their token has in each layer's stream. */
function ranksByLayer(model, ids, positions, moves) {
  const found = [];
  model.forward(ids.slice(0, Math.max(...positions)), {
    moves,
    atLayer(l, a, h, x) {
      const at = new Float32Array(positions.length * model.d);
      positions.forEach((p, i) => {
        at.set(x.subarray((p - 1) * model.d, p * model.d), i * model.d);
      });
      const logits = rows(model.unembed(at), model.V);
      found.push(logits.map((A, i) => rank(A, ids[positions[i]])));
    },
  });
  return found; // (layers, positions)
}

function rows(logits, V) {
  const n = logits.length / V;
  return Array.from({ length: n }, (_, i) => logits.subarray(i * V, (i + 1) * V));
}

function dot(one, other) {
  return one.reduce((sum, value, i) => sum + value * other[i], 0);
}

/** x of G·x = b, for a small symmetric G with a large diagonal. */
function solve(G, b) {
  const A = G.map((g, i) => [...g, b[i]]);
  A.forEach((pivot, i) => {
    A.forEach((other, j) => {
      if (j === i) return;
      const factor = other[i] / pivot[i];
      for (let k = i; k < other.length; k++) other[k] -= factor * pivot[k];
    });
  });
  return A.map((row, i) => row[b.length] / row[i]);
}
