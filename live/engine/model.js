// A small Llama with weights of 8 bits. Vectors of several
// positions lie one after the other in Float32Arrays; the last index runs fastest.
"use strict";

const HEAD = 64; // numbers of an attention head
const MOST = 256; // vectors in one product
const PAGE = 65536;

/** The whole file of weights (safetensors), laid where WebAssembly can read it. */
class Weights {
  /** Room for a file of so many bytes, and the kernel beside it. */
  static async make(bytes, kernel) {
    const pages = Math.ceil(bytes / PAGE) + 1;
    const memory = new WebAssembly.Memory({ initial: pages });
    const made = await WebAssembly.instantiate(kernel, { env: { memory } });
    return new Weights(memory, made.instance.exports.multiply, bytes);
  }

  constructor(memory, multiply, bytes) {
    Object.assign(this, { memory, run: multiply, bytes });
    this.file = new Uint8Array(memory.buffer, 0, bytes);
  }

  /** Reads the header, once the file is there, and makes room for vectors. */
  open() {
    const at = 8 + new DataView(this.memory.buffer).getUint32(0, true);
    this.tensors = JSON.parse(new TextDecoder().decode(this.file.slice(8, at)));
    for (const one of Object.values(this.tensors)) {
      if (one.shape) one.at = at + one.data_offsets[0];
    }
    const widest = this.shape("model.layers.0.mlp.down_proj.weight")[1];
    const [V, d] = this.shape("model.embed_tokens.weight");
    this.row = Math.ceil(this.bytes / 16) * 16;
    this.x = this.row + 4 * widest;
    this.y = this.x + 4 * MOST * widest;
    const end = this.y + 4 * MOST * V;
    this.memory.grow(Math.ceil(end / PAGE) - this.memory.buffer.byteLength / PAGE);
    return { V, d };
  }

  shape(name) {
    return this.tensors[name].shape;
  }

  floats(name) {
    const { at, shape } = this.tensors[name];
    return new Float32Array(this.memory.buffer, at, shape[0]);
  }

  numbers(name) {
    const { at, shape } = this.tensors[name];
    return new Int8Array(this.memory.buffer, at, shape[0] * shape[1]);
  }

  /** x (n, cols) times a matrix (rows, cols), transposed: (n, rows). */
  multiply(name, x) {
    const [rows, cols] = this.shape(name);
    const n = x.length / cols;
    const found = new Float32Array(n * rows);
    for (let from = 0; from < n; from += MOST) {
      const some = Math.min(MOST, n - from);
      const part = x.subarray(from * cols, (from + some) * cols);
      new Float32Array(this.memory.buffer, this.x, part.length).set(part);
      const { at } = this.tensors[name];
      const scale = this.tensors[name + ".scale"].at;
      this.run(at, scale, this.x, this.y, rows, cols, some, this.row);
      const y = new Float32Array(this.memory.buffer, this.y, some * rows);
      found.set(y, from * rows);
    }
    return found;
  }
}

class Model {
  constructor(weights, config) {
    Object.assign(this, { weights }, weights.open());
    this.layers = config.num_hidden_layers;
    this.ff = config.intermediate_size;
    this.heads = config.num_attention_heads;
    this.shared = this.heads / config.num_key_value_heads; // heads with the same keys
    this.eps = config.rms_norm_eps;
    this.gamma = weights.floats("model.norm.weight").slice();
    const theta = config.rope_parameters.rope_theta;
    this.turns = Float32Array.from(
      { length: HEAD / 2 }, (_, i) => theta ** ((-2 * i) / HEAD)
    );
  }

  /**
   * Reads token ids after those of `past` and returns the streams x (n, d) above
   * the last layer. `moves` is an edit: see `addMove`. `atLayer(l, a, h, x)` sees FF₂'s
   * input and output and the stream, at all positions; moves that it returns act
   * from there on. `past` keeps what later tokens need.
   */
  forward(ids, { moves = [], atLayer = null, past = null } = {}) {
    const { d, weights } = this;
    const rows = past || this.nothing();
    const x = new Float32Array(ids.length * d);
    const embedded = weights.numbers("model.embed_tokens.weight");
    const scale = weights.floats("model.embed_tokens.weight.scale");
    ids.forEach((id, i) => {
      for (let j = 0; j < d; j++) x[i * d + j] = embedded[id * d + j] * scale[id];
    });
    for (let l = 0; l < this.layers; l++) {
      const name = `model.layers.${l}.`;
      const times = (part, v) => weights.multiply(`${name}${part}.weight`, v);
      const norm = (part) => this.norm(x, weights.floats(`${name}${part}.weight`));
      let u = norm("input_layernorm");
      const [q, k, v] = ["q", "k", "v"].map((p) => times(`self_attn.${p}_proj`, u));
      this.turn(q, rows.length, ids.length);
      this.turn(k, rows.length, ids.length);
      rows.keys[l] = joined(rows.keys[l], k);
      rows.values[l] = joined(rows.values[l], v);
      const mixed = this.attend(q, rows.keys[l], rows.values[l], rows.length);
      add(x, times("self_attn.o_proj", mixed));
      u = norm("post_attention_layernorm");
      const [g, a] = ["gate", "up"].map((p) => times(`mlp.${p}_proj`, u));
      for (let i = 0; i < a.length; i++) a[i] *= g[i] / (1 + Math.exp(-g[i]));
      const h = times("mlp.down_proj", a);
      for (const move of moves) if (move.layer === l) addMove(h, a, move);
      add(x, h);
      for (const move of (atLayer && atLayer(l, a, h, x)) || []) addMove(x, a, move);
    }
    rows.length += ids.length;
    return x;
  }

  /** What `forward` keeps of tokens that it has read, of none so far. */
  nothing() {
    const none = () => Array.from({ length: this.layers }, () => new Float32Array());
    return { length: 0, keys: none(), values: none() };
  }

  /** RMSNorm of each vector. */
  norm(x, gamma) {
    const d = gamma.length;
    const y = new Float32Array(x.length);
    for (let i = 0; i < x.length; i += d) {
      let squares = 0;
      for (let j = 0; j < d; j++) squares += x[i + j] * x[i + j];
      const s = 1 / Math.sqrt(squares / d + this.eps);
      for (let j = 0; j < d; j++) y[i + j] = x[i + j] * s * gamma[j];
    }
    return y;
  }

  /** Rotary positions, in place: the i-th number of a head turns with the (i+32)-th. */
  turn(q, start, n) {
    const width = q.length / n;
    for (let p = 0; p < n; p++) {
      for (let i = 0; i < HEAD / 2; i++) {
        const angle = Math.fround((start + p) * this.turns[i]);
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        for (let h = 0; h < width; h += HEAD) {
          const one = p * width + h + i;
          const other = one + HEAD / 2;
          const [u, v] = [q[one], q[other]];
          q[one] = u * cos - v * sin;
          q[other] = v * cos + u * sin;
        }
      }
    }
  }

  /** Causal attention of queries, whose first stands at `start`. */
  attend(q, keys, values, start) {
    const width = this.heads * HEAD;
    const step = width / this.shared;
    const mixed = new Float32Array(q.length);
    const weight = new Float32Array(keys.length / step);
    for (let p = 0; p < q.length / width; p++) {
      for (let head = 0; head < this.heads; head++) {
        const at = p * width + head * HEAD;
        const of = Math.floor(head / this.shared) * HEAD;
        let highest = -Infinity;
        for (let j = 0; j <= start + p; j++) {
          let dot = 0;
          for (let i = 0; i < HEAD; i++) dot += q[at + i] * keys[j * step + of + i];
          weight[j] = dot / Math.sqrt(HEAD);
          highest = Math.max(highest, weight[j]);
        }
        let total = 0;
        for (let j = 0; j <= start + p; j++) {
          total += weight[j] = Math.exp(weight[j] - highest);
        }
        for (let j = 0; j <= start + p; j++) {
          const share = weight[j] / total;
          for (let i = 0; i < HEAD; i++) {
            mixed[at + i] += share * values[j * step + of + i];
          }
        }
      }
    }
    return mixed;
  }

  /** U·(γ ∘ x), (n, V): logits up to the norm's positive factor, which moves no rank. */
  unembed(x) {
    const y = x.map((value, i) => value * this.gamma[i % this.d]);
    return this.weights.multiply("model.embed_tokens.weight", y);
  }

  /** Column j of FF₂'s weight of a layer as an edit leaves it: neuron j, (d,). */
  neuron(l, j, moves) {
    const name = `model.layers.${l}.mlp.down_proj.weight`;
    const q = this.weights.numbers(name);
    const scale = this.weights.floats(name + ".scale");
    const n = new Float32Array(this.d);
    for (let i = 0; i < this.d; i++) n[i] = q[i * this.ff + j] * scale[i];
    for (const move of moves) {
      const place = move.layer === l ? move.neurons.indexOf(j) : -1;
      if (place >= 0) for (let i = 0; i < this.d; i++) n[i] += move.c[place] * move.d[i];
    }
    return n;
  }

  /** What greedy decoding writes after token ids: at most n ids, none after `end`. */
  write(ids, n, moves, end = -1) {
    const past = this.nothing();
    const found = [];
    let last = this.forward(ids, { moves, past }).slice(-this.d);
    while (found.length < n) {
      const logits = this.unembed(last);
      const next = logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
      if (next === end) break;
      found.push(next);
      if (found.length < n) last = this.forward([next], { moves, past });
    }
    return found;
  }

  /** The mean of −log p over the tokens of a text, but the first. */
  loss(ids, moves) {
    const x = this.forward(ids, { moves });
    const logits = this.unembed(this.norm(x, new Float32Array(this.d).fill(1)));
    let total = 0;
    for (let i = 0; i + 1 < ids.length; i++) {
      const row = logits.subarray(i * this.V, (i + 1) * this.V);
      const highest = row.reduce((a, b) => Math.max(a, b));
      const sum = row.reduce((a, b) => a + Math.exp(b - highest), 0);
      total += Math.log(sum) + highest - row[ids[i + 1]];
    }
    return total / (ids.length - 1);
  }
}

/**
 * Adds to vectors y (n, d) what a move changes at activations a (n, ff). A move of
 * layer, t, d, neurons, c is d·cᵀ added to FF₂: every neuron moves by its c along d.
 */
function addMove(y, a, { d, neurons, c }) {
  const n = y.length / d.length;
  for (let p = 0; p < n; p++) {
    let S = 0;
    for (let i = 0; i < c.length; i++) S += a[p * (a.length / n) + neurons[i]] * c[i];
    for (let i = 0; i < d.length; i++) y[p * d.length + i] += S * d[i];
  }
}

function add(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
}

function joined(one, other) {
  const both = new Float32Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}
