import { expect, it } from "vitest";
import { Pieces } from "./stream-buffers.ts";

function all(size: number, ...chunks: string[]): string[] {
  const pieces = new Pieces(size);
  pieces.start(chunks.map((chunk) => Buffer.from(chunk)));
  const found: string[] = [];
  for (let piece = pieces.next(); piece !== undefined; piece = pieces.next()) found.push(piece.toString());
  return found;
}

it.each([
  [["abcdefgh"], ["abc", "def", "gh"]],
  [
    ["a", "b", "c", "d"],
    ["abc", "d"],
  ],
  [
    ["a", "bcdefg", "h"],
    ["abc", "def", "gh"],
  ],
  [
    ["abc", "", "def"],
    ["abc", "def"],
  ],
  [["", ""], []],
  [[], []],
])("cuts %j into %j", (chunks, pieces) => {
  expect(all(3, ...chunks)).toEqual(pieces);
});

it("cuts a chunk evenly where a small piece at its end would come otherwise", () => {
  const lengths = (length: number, ...more: number[]) => {
    const pieces = new Pieces(100, 105);
    pieces.start([length, ...more].map((size) => Buffer.alloc(size)));
    const found: number[] = [];
    for (let piece = pieces.next(); piece !== undefined; piece = pieces.next()) found.push(piece.length);
    return found;
  };
  expect(lengths(420)).toEqual([105, 105, 105, 105]);
  expect(lengths(210, 105)).toEqual([105, 105, 105]);
  expect(lengths(421)).toEqual([100, 100, 100, 100, 21]);
  expect(lengths(110)).toEqual([100, 10]);
  expect(lengths(103)).toEqual([103]);
});
