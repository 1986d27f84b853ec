import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Logger } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readEndpointsFile, writeEndpointsFile } from "./endpoints-file.ts";

let dir: string;
let warnings: string[];
const log: Logger = { debug() {}, info() {}, warn: (_fields, text) => warnings.push(text), error() {} };

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-endpoints-"));
  warnings = [];
});

afterEach(() => rm(dir, { recursive: true }));

it("gives back what was written; a file that is not there is no reason for a word", async () => {
  const file = join(dir, "endpoints.yml");
  expect(await readEndpointsFile(file, log)).toEqual([]);
  await writeEndpointsFile(file, [{ protocol: "tls", host: "::1", port: 1280 }]);
  expect(await readEndpointsFile(file, log)).toEqual([{ protocol: "tls", host: "::1", port: 1280 }]);
  expect(warnings).toEqual([]);
});

it("one that cannot be read, or an address in it, does not stop the router but is told", async () => {
  const file = join(dir, "endpoints.yml");
  await writeFile(file, "endpoints: [tls:a:1, elsewhere]");
  expect(await readEndpointsFile(file, log)).toEqual([{ protocol: "tls", host: "a", port: 1 }]);
  await writeFile(file, "endpoints: [");
  expect(await readEndpointsFile(file, log)).toEqual([]);
  expect(warnings).toEqual([expect.stringMatching(/an address/), expect.stringMatching(/cannot be read/)]);
});
