import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const manual = readFileSync(join(import.meta.dirname, "index.ts"), "utf8").replaceAll(/^ \* ?/gm, "");
const examples = [...manual.matchAll(/\*\*([^*]+)\.\*\*[^`]*?[\s\S]*?```ts\n([\s\S]+?)```/g)].map(
  ([, title = "", code = ""]) => [title, code] as const,
);

/** What the comments of an example say that it prints. */
function promised(code: string): string[] {
  return [...code.matchAll(/\/\/ prints (.+?)(?: \((\d+) times\))?$/gm)].flatMap(([, text = "", times = "1"]) =>
    Array.from({ length: Number(times) }, () => text),
  );
}

test("every part has an example", () => {
  expect(examples.map(([title]) => title)).toEqual([
    "Back off",
    "Wait, and stop waiting",
    "Bound work",
    "Bound memory",
    "Tell subscribers",
  ]);
});

test.each(examples)('the example of "%s" prints what it says', (_title, code) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module-typescript", "--eval", code], {
    cwd: join(import.meta.dirname, ".."),
    encoding: "utf8",
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout.trimEnd().split("\n").sort()).toEqual(promised(code).sort());
});
