import { chmod, chown, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KeptSession } from "@sallyport/sdk";
import type { Logger } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MAX_SESSION_BYTES, SessionFile, sessionFileOf } from "./session-file.ts";

const CONTROLLER = "https://ctrl.example:1280";
const SESSION: KeptSession = {
  ...{ apiSessionId: "s", identityId: "i", identityName: "me", refreshToken: "secret-token" },
  bound: { certPem: "cert", keyPem: "key" },
};
let folder: string;
let identity: string;
let logged: object[];
let file: SessionFile;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "session-"));
  identity = join(folder, "me.json");
  logged = [];
  const note = (fields: object) => void logged.push(fields);
  const log: Logger = { debug: note, info: note, warn: note, error: note };
  file = new SessionFile(identity, CONTROLLER, log);
});

afterEach(() => rm(folder, { recursive: true }));

test("the session is in a file of its owner, and nothing is left beside it", async () => {
  expect(await file.read()).toBeUndefined();
  await file.write({ ...SESSION, refreshToken: "former" });
  await file.write(SESSION);
  expect(await file.read()).toEqual(SESSION);
  expect(await readdir(folder)).toEqual(["me.json.session"]);
  expect((await stat(sessionFileOf(identity))).mode & 0o777).toBe(0o600);
  await file.write(undefined);
  expect([await file.read(), await readdir(folder), logged]).toEqual([undefined, [], []]);
});

test("of several sessions the last one stays", async () => {
  const tokens = ["a", "b", "c", "d"];
  await Promise.all(tokens.map((refreshToken) => file.write({ ...SESSION, refreshToken })));
  expect(await file.read()).toMatchObject({ refreshToken: "d" });
});

test("a former file that others could read is replaced, not written into", async () => {
  await writeFile(sessionFileOf(identity), "{}");
  await chmod(sessionFileOf(identity), 0o644);
  await file.write(SESSION);
  expect((await stat(sessionFileOf(identity))).mode & 0o777).toBe(0o600);
});

test.each([
  ["a part of a session", JSON.stringify(SESSION).slice(0, -20)],
  ["something else", '{"refreshToken": "secret-token"}'],
  [
    "a file without end",
    JSON.stringify({ controller: CONTROLLER, ...SESSION, identityName: "a".repeat(MAX_SESSION_BYTES) }),
  ],
])("%s is none, and the log does not repeat it", async (_what, text) => {
  await writeFile(sessionFileOf(identity), text, { mode: 0o600 });
  expect(await file.read()).toBeUndefined();
  expect(logged).toEqual([{ file: sessionFileOf(identity), reason: "it holds no session" }]);
});

test.each([0o602, 0o644, 0o666])("a session that others can read or write (%o) is not used", async (mode) => {
  await file.write(SESSION);
  await chmod(sessionFileOf(identity), mode);
  expect(await file.read()).toBeUndefined();
  expect(logged).toEqual([
    { file: sessionFileOf(identity), reason: expect.stringContaining(`mode is ${mode.toString(8)}`) },
  ]);
});

/** Only root can give a file away. */
const isRoot = process.geteuid?.() === 0;

test.runIf(isRoot)(
  "a session that another user made is not used, unless the identity is of that user, too",
  async () => {
    await file.write(SESSION);
    await writeFile(identity, "{}");
    await chown(sessionFileOf(identity), 12_345, 12_345);
    expect(await file.read()).toBeUndefined();
    const reason = "it belongs to another user, with the id 12345";
    expect(logged).toEqual([{ file: sessionFileOf(identity), reason }]);
    await chown(identity, 12_345, 12_345);
    expect(await file.read()).toEqual(SESSION);
  },
);

test("a session in a volume of Kubernetes, whose group can read it, goes on", async () => {
  await file.write(SESSION);
  await chmod(sessionFileOf(identity), 0o660);
  expect([await file.read(), logged]).toEqual([SESSION, []]);
});

test("a session at another controller is not shown to this one", async () => {
  await file.write(SESSION);
  const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };
  expect(await new SessionFile(identity, "https://else.example", silent).read()).toBeUndefined();
  expect(await file.read()).toEqual(SESSION);
});

test("a session that cannot be written leaves the former one", async () => {
  await file.write(SESSION);
  const gone = new SessionFile(join(folder, "nowhere", "me.json"), CONTROLLER, {
    debug() {},
    info() {},
    warn() {},
    error() {},
  });
  await expect(gone.write(SESSION)).rejects.toThrow("ENOENT");
  expect(JSON.parse(await readFile(sessionFileOf(identity), "utf8"))).toEqual({ controller: CONTROLLER, ...SESSION });
});
