import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { configKeys, idleReason } from "@sallyport/router-config/reference";
import { expect, it } from "vitest";
import { usedKeys } from "../testing/key-use.ts";

/** Keys whose use the compiler cannot see: the test that shows what each of them does, by file and words of its title. */
const SHOWN_BY: Readonly<Record<string, readonly [file: string, title: string]>> = {
  v: ["router/src/main.test.ts", "names line and column of every error of a file, and does not start with it"],
  "link.listeners[].binding": [
    "packages/router-config/src/validate-errors.test.ts",
    "are all told at once, with path, line and column",
  ],
  "link.dialers[].binding": [
    "packages/router-config/src/validate-errors.test.ts",
    "are all told at once, with path, line and column",
  ],
  "metrics.enableDataDelayMetric": ["router/src/router.test.ts", "measures how long data of SDKs waits"],
  "interfaceDiscovery.disabled": [
    "router/src/router.test.ts",
    "tells controllers of this machine's interfaces, unless",
  ],
  "proxy.address": ["e2e/system/proxy.test.ts", "reach the controller and each other through it"],
};

/** Keys that are one with another once the file is read (`packages/router-config/src/validate.test.ts`, "forms that mean the same"). */
const SAME: readonly (readonly [key: RegExp, as: string])[] = [
  [/^ctrl\.endpoint$/, "ctrl.endpoints"],
  [/^edge\.csr\./, "csr."],
  [/^transport\.ws\./, "transport.wss."],
  [/^(?:web\[\]|transport\.wss)\.identity\./, "identity."],
  [/^link\.listeners\[\]\.address$/, "link.listeners[].bind"],
  [/^link\.listeners\[\]\.options\.advertise$/, "link.listeners[].advertise"],
  [/^listeners\[edge\]\.options\.advertise$/, "listeners[edge].advertise"],
  [/^(listeners\[\w+\])\.bind$/, "$1.address"],
  [/^getCircuitTimeout$/, "listeners[edge].options.getCircuitTimeout"],
  // Flow control is read by one function for all entries.
  [/^\w+$(?<!^v|^enableDebugOps)/, "dialers[].options.$&"],
  [/\[\]$/, ""],
];

const read = (key: string): string => SAME.reduce((name, [pattern, as]) => name.replace(pattern, as), key);

it("every key has an effect, or its reason is in the list of those without", { timeout: 600_000 }, async () => {
  const effective = configKeys().filter((key) => idleReason(key) === undefined);
  const toFind = new Set(effective.filter((key) => !(key in SHOWN_BY)).map(read));
  const used = await usedKeys(toFind);
  expect([...toFind].filter((key) => !used.has(key))).toEqual([]);
  // A way to see none of this would be a compiler that complains of nothing.
  expect(used.size).toBeGreaterThan(150);
});

it.each(Object.entries(SHOWN_BY))("%s is shown by a test that is there", async (key, [file, title]) => {
  const text = await readFile(join(import.meta.dirname, "../../..", file), "utf8");
  expect(text).toContain(title);
  expect(text).toContain(key === "v" ? "v: 2" : (key.split(".").at(-1) ?? ""));
});
