import { ConfigError } from "@sallyport/config-file";
import { formatHostPort } from "@sallyport/wire";
import { expect, it } from "vitest";
import { readControllerConfig, sharesPort, workerConfig } from "./index.ts";

const api = `api: { bind: ":1280", advertise: "c:1280" }\n`;
const database = `database: { url: "postgres://h/d" }\n`;
const separate = `${api}ctrl: { bind: "127.0.0.1:6262", advertise: "c:16262" }\n${database}`;
const shared = `${api}ctrl: { bind: ":1280", advertise: "c:1280" }\n${database}`;
const read = (...[text, options = {}, env = {}]: [string, object?, NodeJS.ProcessEnv?]) =>
  readControllerConfig(text, "c.yml", env, options).config;

function problems(...parts: Parameters<typeof read>): string[] {
  try {
    read(...parts);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split("\n");
    throw error;
  }
  return [];
}

function worker(text: string, number: number) {
  const { id, api, ctrl, metrics } = workerConfig(read(text), number).replica;
  const at = (address: Parameters<typeof formatHostPort>[0] | undefined) => address && formatHostPort(address);
  return [id, at(api.bind), at(ctrl.bind), at(ctrl.advertise), at(metrics.bind)];
}

it("gives every worker an id and ports of its own, and the address of the API to all", () => {
  const text = `${separate}replica: { id: c1, workers: 3, api: { bind: ":80" } }\nmetrics: { bind: ":9464" }\n`;
  expect(worker(text, 1)).toEqual(["c1-1", ":80", "127.0.0.1:6262", "c:16262", ":9464"]);
  expect(worker(text, 3)).toEqual(["c1-3", ":80", "127.0.0.1:6264", "c:16264", ":9466"]);
});

it("gives workers the ports after that of the API where it is the control channel's, too", () => {
  const text = `${shared}replica: { workers: 2 }\n`;
  expect(sharesPort(read(text))).toBe(true);
  expect(worker(text, 1)).toEqual(["controller-1", undefined, ":1281", "c:1281", undefined]);
  expect(worker(text, 2)).toEqual(["controller-2", undefined, ":1282", "c:1282", undefined]);
  const own = `${shared}replica: { workers: 2, ctrl: { bind: ":7", advertise: "c1:7" } }\n`;
  expect(sharesPort(read(own))).toBe(false);
  expect(worker(own, 1)).toEqual(["controller-1", undefined, ":7", "c1:7", undefined]);
});

it("takes the same port at another address", () => {
  const text = separate.replace('":1280"', '"127.0.0.2:6263"');
  expect(worker(`${text}replica: { workers: 2 }\n`, 2)).toEqual([
    "controller-2",
    undefined,
    "127.0.0.1:6263",
    "c:16263",
    undefined,
  ]);
});

it("takes the number from a variable and an option, and one worker without it", () => {
  expect(read(separate).replica.workers).toBe(1);
  expect(read(`${separate}replica: { workers: $CORES }\n`, {}, { CORES: "" }).replica.workers).toBe(1);
  expect(read(`${separate}replica: { workers: $CORES }\n`, {}, { CORES: "4" }).replica.workers).toBe(4);
  expect(read(separate, {}, { SALLYPORT_REPLICA_WORKERS: "3" }).replica.workers).toBe(3);
  expect(read(separate, { "replica-workers": "2" }, { SALLYPORT_REPLICA_WORKERS: "3" }).replica.workers).toBe(2);
});

it.each<[string, string, RegExp]>([
  ["0", "workers: 0", /c\.yml:4:21: replica\.workers: expected a whole number from 1 to 64, found 0/],
  ["a fraction", "workers: 1.5", /expected a whole number from 1 to 64, found 1\.5/],
  ["65", "workers: 65", /expected a whole number from 1 to 64, found 65/],
  ["auto", "workers: auto", /expected a whole number from 1 to 64, found "auto"/],
  [
    "a long id",
    `id: ${"a".repeat(62)}, workers: 2`,
    /replica\.id: expected at most 61 characters, because each worker/,
  ],
  ["a port of the API", `workers: 2, ctrl: { bind: ":1279" }`, /1280 for the API and the control channel of worker 2/],
  [
    "ports of another worker",
    `workers: 3, metrics: { bind: ":6264" }`,
    /6264 for the metrics of worker 1 and the control channel of worker 3/,
  ],
  ["ports that do not exist", `workers: 64, ctrl: { bind: ":65500" }`, /ports up to 65535 .*, found .* worker 37/],
  ["advertised ports", `workers: 2, ctrl: { advertise: "c:65535" }`, /ports up to 65535 .*, found .* worker 2/],
])("refuses %s", (_what, section, message) => {
  expect(problems(`${separate}replica: { ${section} }\n`)).toEqual([expect.stringMatching(message)]);
});

it("refuses workers on the embedded database, and figures at an address where another worker answers each time", () => {
  const embedded = separate.replace(/url: "[^"]+"/, "dir: database");
  expect(problems(embedded)).toEqual([]);
  expect(problems(`${embedded}replica: { workers: 2 }\n`)).toEqual([
    expect.stringMatching(
      /^c\.yml:4:21: replica\.workers: expected 1, because the embedded database has one process \(set database\.url\), found 2$/,
    ),
  ]);
  expect(problems(embedded, { "replica-workers": "2" })).toEqual([
    expect.stringMatching(/replica\.workers: expected 1, because the embedded database/),
  ]);
  expect(problems(`${separate}replica: { workers: 2 }\nmetrics: { scrapeCertificate: p.pem }\n`)).toEqual([
    expect.stringMatching(/metrics\.scrapeCertificate: expected metrics\.bind in its place/),
  ]);
});
