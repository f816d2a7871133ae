#!/bin/sh
# kernel.ts → kernel.wasm, by AssemblyScript (Apache-2.0), in a folder that goes again
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
cd "$work"
npm install --silent --no-audit --no-fund assemblyscript@0.28.20
npx asc "$here/kernel.ts" --outFile "$here/kernel.wasm" -O3 --noAssert \
  --runtime stub --importMemory --enable simd
rm -r "$work"
