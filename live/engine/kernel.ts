// The product of weights of 8 bits with vectors, in WebAssembly SIMD: all that is
// slow in the engine. Built by build.sh; everything else is in engine.js.

/** Two rows of whole numbers, widened to float32 one after the other. */
function widen(q: usize, to: usize, count: i32): void {
  for (let i = 0; i < count; i += 8) {
    const eight = v128.load_ext<i8>(q + i);
    const low = i32x4.extend_low_i16x8_s(eight);
    const high = i32x4.extend_high_i16x8_s(eight);
    v128.store(to + (i << 2), f32x4.convert_i32x4_s(low));
    v128.store(to + (i << 2), f32x4.convert_i32x4_s(high), 16);
  }
}

/** The sum of four lanes. */
// @ts-ignore: decorator
@inline
function sum(v: v128): f32 {
  return (
    f32x4.extract_lane(v, 0) + f32x4.extract_lane(v, 1) +
    (f32x4.extract_lane(v, 2) + f32x4.extract_lane(v, 3))
  );
}

/**
 * y[i, r] = scale[r] · Σ_c q[r, c] · x[i, c]: q (rows, cols) int8, x (n, cols) and
 * y (n, rows) float32; all are addresses. cols is a multiple of 8; row holds one.
 */
export function multiply(
  q: usize, scale: usize, x: usize, y: usize,
  rows: i32, cols: i32, n: i32, row: usize
): void {
  const width: usize = <usize>cols << 2;
  for (let r = 0; r < rows; r++) {
    widen(q + <usize>r * cols, row, cols);
    const s = f32.load(scale + (<usize>r << 2));
    let i = 0;
    for (; i + 4 <= n; i += 4) {
      const x0 = x + <usize>i * width;
      const x1 = x0 + width;
      const x2 = x1 + width;
      const x3 = x2 + width;
      let a = f32x4.splat(0);
      let b = f32x4.splat(0);
      let c = f32x4.splat(0);
      let d = f32x4.splat(0);
      for (let at: usize = 0; at < width; at += 16) {
        const w = v128.load(row + at);
        a = f32x4.add(a, f32x4.mul(w, v128.load(x0 + at)));
        b = f32x4.add(b, f32x4.mul(w, v128.load(x1 + at)));
        c = f32x4.add(c, f32x4.mul(w, v128.load(x2 + at)));
        d = f32x4.add(d, f32x4.mul(w, v128.load(x3 + at)));
      }
      const to = y + ((<usize>i * rows + r) << 2);
      const next = <usize>rows << 2;
      f32.store(to, s * sum(a));
      f32.store(to + next, s * sum(b));
      f32.store(to + 2 * next, s * sum(c));
      f32.store(to + 3 * next, s * sum(d));
    }
    for (; i < n; i++) {
      const x0 = x + <usize>i * width;
      let a = f32x4.splat(0);
      let b = f32x4.splat(0);
      for (let at: usize = 0; at < width; at += 32) {
        a = f32x4.add(a, f32x4.mul(v128.load(row + at), v128.load(x0 + at)));
        b = f32x4.add(
          b, f32x4.mul(v128.load(row + at, 16), v128.load(x0 + at, 16))
        );
      }
      f32.store(y + ((<usize>i * rows + r) << 2), s * sum(f32x4.add(a, b)));
    }
  }
}
