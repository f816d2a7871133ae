// The model's tokenizer: byte-level BPE, and tokens for numbers of two and three digits.
"use strict";

const WORDS =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

class BytePairs {
  /** `content`: what tokenizer.json holds. */
  constructor(content) {
    this.ids = new Map(Object.entries(content.model.vocab));
    const pairs = content.model.merges;
    this.order = new Map(pairs.map((pair, i) => [pair.join(" "), i]));
    for (const { content: text, id } of content.added_tokens) this.ids.set(text, id);
    this.tokens = [];
    for (const [text, id] of this.ids) this.tokens[id] = text;
    // printable bytes stand for themselves, the others for characters from 256 on
    const plain = (b) => (b > 32 && b < 127) || (b > 160 && b !== 173);
    let next = 256;
    this.character = Array.from({ length: 256 }, (_, b) =>
      String.fromCharCode(plain(b) ? b : next++));
    this.byte = new Map(this.character.map((character, b) => [character, b]));
  }

  encode(text) {
    const parts = text.split(/(\d{2,3})/).filter(Boolean);
    return parts.flatMap((part) => {
      if (/^\d{2,3}$/.test(part)) return [this.ids.get(part)];
      return part.match(WORDS).flatMap((word) => this.merge(word));
    });
  }

  /** The tokens of a word: neighbours are merged, those first whose merge is oldest. */
  merge(word) {
    const bytes = new TextEncoder().encode(word);
    let some = Array.from(bytes, (b) => this.character[b]);
    while (some.length > 1) {
      const orders = some.slice(1).map((token, i) => {
        return this.order.get(`${some[i]} ${token}`) ?? Infinity;
      });
      const first = Math.min(...orders);
      if (first === Infinity) break;
      const at = orders.indexOf(first);
      some.splice(at, 2, some[at] + some[at + 1]);
    }
    return some.map((token) => this.ids.get(token));
  }

  decode(ids) {
    const characters = Array.from(ids.map((id) => this.tokens[id]).join(""));
    const bytes = Uint8Array.from(characters, (one) => this.byte.get(one) ?? 63);
    return new TextDecoder().decode(bytes);
  }
}
