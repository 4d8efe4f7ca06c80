// QR codes of texts, as ISO/IEC 18004 has them: bytes, correction M, versions 1 to 20.
"use strict";

const drawCode = (() => {
  const CHECK_BYTES = [0, 10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26]; // of each block, by version
  const BLOCKS = [0, 1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16];
  const MASKS = [
    (x, y) => (x + y) % 2, (x, y) => y % 2, (x) => x % 3, (x, y) => (x + y) % 3, (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2,
    (x, y) => ((x * y) % 2) + ((x * y) % 3), (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2, (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
  ];

  function product(one, other) { // in the field of 256 elements
    let made = 0;
    for (let bit = 7; bit >= 0; bit--) made = ((made << 1) ^ ((made >>> 7) * 0x11d)) ^ (((other >>> bit) & 1) * one);
    return made;
  }

  function divisorOf(degree) {
    const made = new Array(degree - 1).fill(0).concat(1);
    let root = 1;
    for (let i = 0; i < degree; i++) {
      for (let j = 0; j < degree; j++) made[j] = product(made[j], root) ^ (made[j + 1] || 0);
      root = product(root, 2);
    }
    return made;
  }

  function checkBytes(bytes, divisor) {
    const rest = new Array(divisor.length).fill(0);
    for (const byte of bytes) {
      const factor = byte ^ rest.shift();
      rest.push(0);
      divisor.forEach((one, i) => { rest[i] ^= product(one, factor); });
    }
    return rest;
  }

  const alignments = (version) => {
    if (version === 1) return [];
    const count = Math.floor(version / 7) + 2;
    const step = Math.ceil((version * 4 + 4) / (count * 2 - 2)) * 2;
    return [6, ...Array.from({ length: count - 1 }, (_, i) => version * 4 + 10 - step * (count - 2 - i))];
  };

  function roomOf(version) { // bytes, with those of correction
    const count = alignments(version).length;
    let bits = (16 * version + 128) * version + 64;
    if (version > 1) bits -= (25 * count - 10) * count - 55;
    return (bits - (version > 6 ? 36 : 0)) >>> 3;
  }

  const dataBytes = (version) => roomOf(version) - CHECK_BYTES[version] * BLOCKS[version];

  function bytesOf(text, version) {
    const bits = [];
    const put = (value, length) => { for (let i = length - 1; i >= 0; i--) bits.push((value >>> i) & 1); };
    const room = dataBytes(version) * 8;
    put(4, 4);
    put(text.length, version < 10 ? 8 : 16);
    for (const byte of text) put(byte, 8);
    put(0, Math.min(4, room - bits.length));
    put(0, (8 - (bits.length % 8)) % 8);
    for (let pad = 0xec; bits.length < room; pad ^= 0xec ^ 0x11) put(pad, 8);
    return Array.from({ length: bits.length / 8 }, (_, i) => parseInt(bits.slice(8 * i, 8 * i + 8).join(""), 2));
  }

  function interleaved(bytes, version) {
    const count = BLOCKS[version];
    const check = CHECK_BYTES[version];
    const short = count - (roomOf(version) % count);
    const length = Math.floor(roomOf(version) / count) - check;
    const divisor = divisorOf(check);
    const blocks = [];
    for (let i = 0, at = 0; i < count; i++) {
      const data = bytes.slice(at, at += length + (i < short ? 0 : 1));
      blocks.push([data, checkBytes(data, divisor)]);
    }
    const made = [];
    for (let i = 0; i <= length; i++) for (const [data] of blocks) if (i < data.length) made.push(data[i]);
    for (let i = 0; i < check; i++) for (const [, rest] of blocks) made.push(rest[i]);
    return made;
  }

  function drawn(bytes, version, mask) {
    const size = version * 4 + 17;
    const dark = Array.from({ length: size }, () => new Array(size).fill(false));
    const fixed = Array.from({ length: size }, () => new Array(size).fill(false));
    const set = (x, y, value) => { if (x >= 0 && y >= 0 && x < size && y < size) { dark[y][x] = Boolean(value); fixed[y][x] = true; } };
    for (let i = 0; i < size; i++) { set(6, i, i % 2 === 0); set(i, 6, i % 2 === 0); }
    for (const [cx, cy] of [[3, 3], [size - 4, 3], [3, size - 4]]) {
      for (let dy = -4; dy <= 4; dy++) for (let dx = -4; dx <= 4; dx++) {
        const far = Math.max(Math.abs(dx), Math.abs(dy));
        set(cx + dx, cy + dy, far !== 2 && far !== 4);
      }
    }
    const places = alignments(version);
    const last = places.length - 1;
    places.forEach((cx, i) => places.forEach((cy, j) => {
      if ((i === 0 && j === 0) || (i === 0 && j === last) || (i === last && j === 0)) return;
      for (let dy = -2; dy <= 2; dy++) for (let dx = -2; dx <= 2; dx++) set(cx + dx, cy + dy, Math.max(Math.abs(dx), Math.abs(dy)) !== 1);
    }));
    let rest = mask; // correction M is 0
    for (let i = 0; i < 10; i++) rest = (rest << 1) ^ ((rest >>> 9) * 0x537);
    const format = ((mask << 10) | rest) ^ 0x5412;
    const bit = (value, i) => (value >>> i) & 1;
    for (let i = 0; i < 6; i++) set(8, i, bit(format, i));
    set(8, 7, bit(format, 6)); set(8, 8, bit(format, 7)); set(7, 8, bit(format, 8));
    for (let i = 9; i < 15; i++) set(14 - i, 8, bit(format, i));
    for (let i = 0; i < 8; i++) set(size - 1 - i, 8, bit(format, i));
    for (let i = 8; i < 15; i++) set(8, size - 15 + i, bit(format, i));
    set(8, size - 8, true);
    if (version > 6) {
      let more = version;
      for (let i = 0; i < 12; i++) more = (more << 1) ^ ((more >>> 11) * 0x1f25);
      const said = (version << 12) | more;
      for (let i = 0; i < 18; i++) {
        const [a, b] = [size - 11 + (i % 3), Math.floor(i / 3)];
        set(a, b, bit(said, i)); set(b, a, bit(said, i));
      }
    }
    let at = 0;
    for (let right = size - 1; right >= 1; right -= 2) {
      if (right === 6) right = 5;
      for (let step = 0; step < size; step++) for (let j = 0; j < 2; j++) {
        const x = right - j;
        const y = ((right + 1) & 2) === 0 ? size - 1 - step : step;
        if (fixed[y][x]) continue;
        const value = at < bytes.length * 8 ? bit(bytes[at >>> 3], 7 - (at & 7)) : 0;
        dark[y][x] = Boolean(value) !== (MASKS[mask](x, y) === 0);
        at += 1;
      }
    }
    return dark;
  }

  // How hard a code is to read: long runs, blocks, patterns like the corners, and too much of one colour.
  function penalty(dark) {
    const size = dark.length;
    let points = 0;
    let count = 0;
    for (const across of [true, false]) {
      for (let i = 0; i < size; i++) {
        const row = Array.from({ length: size }, (_, j) => (across ? dark[i][j] : dark[j][i]) ? "1" : "0").join("");
        for (const [run] of row.matchAll(/0{5,}|1{5,}/g)) points += run.length - 2;
        for (let j = 0; j + 11 <= size; j++) if (["10111010000", "00001011101"].includes(row.slice(j, j + 11))) points += 40;
      }
    }
    for (let y = 0; y < size; y++) for (let x = 0; x < size; x++) {
      count += dark[y][x];
      if (x && y && dark[y][x] === dark[y - 1][x] && dark[y][x] === dark[y][x - 1] && dark[y][x] === dark[y - 1][x - 1]) points += 3;
    }
    return points + 10 * Math.floor(Math.abs((20 * count) / size / size - 10));
  }

  // The rows of the code of a text, dark where true.
  function codeOf(text) {
    const bytes = new TextEncoder().encode(text);
    let version = 1;
    while (version < 20 && dataBytes(version) * 8 < bytes.length * 8 + 4 + (version < 10 ? 8 : 16)) version += 1;
    const words = interleaved(bytesOf(bytes, version), version);
    const made = MASKS.map((_, mask) => drawn(words, version, mask));
    return made.reduce((best, one) => (penalty(one) < penalty(best) ? one : best));
  }

  function draw(text, label) {
    const dark = codeOf(text);
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    const size = dark.length + 8;
    svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    svg.setAttribute("shape-rendering", "crispEdges");
    const path = svg.appendChild(document.createElementNS(space, "path"));
    path.setAttribute("d", dark.flatMap((row, y) => row.map((one, x) => (one ? `M${x + 4} ${y + 4}h1v1h-1z` : ""))).join(""));
    return svg;
  }
  return Object.assign(draw, { codeOf });
})();
