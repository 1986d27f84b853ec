import { describe, expect, it } from "vitest";
import { forbiddenWays } from "./unreached.ts";

describe("what a program must not load", () => {
  const rule = { entry: "a/main.ts", under: "a/schemas/", package: "zod", why: "" };
  const waysOf = (files: Readonly<Record<string, string>>) => forbiddenWays(rule, (file) => files[file] ?? "");
  const schema = 'import { z } from "zod";';

  it.each([
    ["at once", 'import { x } from "./b.ts";'],
    ["when needed", 'const { x } = await import("./b.ts");'],
    ["for its effect", 'import "./b.ts";'],
    ["to hand it on", 'export { x } from "./b.ts";'],
    ["for what is a type only", 'import { type X } from "./b.ts";'],
  ])("is found behind other files: %s", (_, main) => {
    const files = { "a/main.ts": main, "a/b.ts": 'import { y } from "./schemas/c.ts";', "a/schemas/c.ts": schema };
    expect(waysOf(files)).toEqual([["a/main.ts", "a/b.ts", "a/schemas/c.ts"]]);
  });

  it("is not found behind types, nor elsewhere, nor in circles", () => {
    const types = 'import type { X } from "./schemas/c.ts";\nexport type { Y } from "./schemas/c.ts";';
    const circle = `${schema}\nimport "./main.ts";`;
    const main = `${types}\nimport "./b.ts";\nimport "./schemas/d.ts";`;
    const pure = 'import type { z } from "zod";';
    expect(waysOf({ "a/main.ts": main, "a/b.ts": circle, "a/schemas/c.ts": schema, "a/schemas/d.ts": pure })).toEqual(
      [],
    );
  });
});
