import { expect, it } from "vitest";
import { tooLarge } from "./sizes.ts";

it("the sources have files of at most 400 lines and folders of at most 25 files", () => {
  const sizes: Readonly<Record<string, number>> = { "a/long.ts": 401, "a/full.ts": 400 };
  const read = (file: string) => "x\n".repeat(sizes[file] ?? 1);
  const folder = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}/${i}.ts`);
  expect(tooLarge(["a/long.ts", "a/full.ts", ...folder("b", 25), ...folder("c", 26)], read)).toEqual([
    expect.stringContaining("a/long.ts: 401 lines"),
    expect.stringContaining("c: 26 files"),
  ]);
});
