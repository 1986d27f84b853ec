import { expect, it } from "vitest";
import { Pieces } from "./pieces.ts";

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
