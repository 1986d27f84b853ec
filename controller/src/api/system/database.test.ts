import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { verifyBackup } from "../../store/backup/restore-backup.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let test: TestController;
beforeAll(async () => {
  test = await startTestController();
});
afterAll(() => test.close());

const fabric = async (method: string, path: string, body?: unknown) =>
  test.call(method, `/fabric/v1${path}`, { token: await test.login("admin", "admin"), body });

it("integrity runs answer 202, their results say what they found, in both APIs", async () => {
  for (const [operation, fixingErrors] of [
    ["check-data-integrity", false],
    ["fix-data-integrity", true],
  ] as const) {
    const begun = await test.admin("POST", `/database/${operation}`);
    expect([begun.status, begun.json]).toEqual([202, { data: {}, meta: {} }]);
    await expect
      .poll(async () => (await test.admin("GET", "/database/data-integrity-results")).json.data.inProgress, {
        timeout: 20_000,
      })
      .toBe(false);
    for (const answer of [
      await test.admin("GET", "/database/data-integrity-results"),
      await fabric("GET", "/database/data-integrity-results"),
    ]) {
      expect(answer.json).toEqual({
        data: {
          inProgress: false,
          fixingErrors,
          tooManyErrors: false,
          startTime: expect.stringMatching(/Z$/),
          endTime: expect.stringMatching(/Z$/),
          error: null,
          results: [],
        },
        meta: { pagination: { limit: -1, offset: 0, totalCount: 0 } },
      });
    }
  }
});

it("a second run while one is active is refused with 429", async () => {
  const answers = await Promise.all([
    test.admin("POST", "/database/check-data-integrity"),
    test.admin("POST", "/database/fix-data-integrity"),
  ]);
  expect(answers.map(({ status }) => status).sort()).toEqual([202, 429]);
  const refused = answers.find(({ status }) => status === 429);
  expect(refused?.json.error.code).toBe("RATE_LIMITED");
  expect(refused?.headers["retry-after"]).toBe("5");
});

it("a snapshot is a backup in the folder of snapshots, one a minute", async () => {
  const { snapshotFolder } = test.ctx.settings;
  expect((await test.admin("POST", "/database/snapshot")).status).toBe(200);
  const [name = ""] = await readdir(snapshotFolder);
  expect(name).toMatch(/^sallyport-\d{8}-\d{6}$/);
  expect((await verifyBackup(join(snapshotFolder, name))).tables.map((table) => table.name)).toContain("identity");

  for (const again of [
    await test.admin("POST", "/database/snapshot"),
    await fabric("POST", "/database"),
    await fabric("POST", "/database/snapshot", { path: "x" }),
  ]) {
    expect([again.status, again.json.error.code]).toEqual([429, "RATE_LIMITED"]);
    expect(Number(again.headers["retry-after"])).toBeGreaterThan(0);
  }
  const minute = 61_000;
  test.clock.offsetMs += minute;
  const named = await fabric("POST", "/database/snapshot", { path: "__DB_DIR__/named-__DATE__" });
  expect(named.json.data.path).toMatch(/\/named-\d{8}$/);
  await verifyBackup(named.json.data.path);
  test.clock.offsetMs += minute;
  const outside = await fabric("POST", "/database/snapshot", { path: "../outside" });
  expect([outside.status, outside.json.error.cause.field]).toEqual([400, "path"]);
  expect((await fabric("POST", "/database")).json).toEqual({ data: {}, meta: {} });
});

it("only administrators may", async () => {
  for (const [method, path] of [
    ["POST", "/database/snapshot"],
    ["POST", "/database/check-data-integrity"],
    ["POST", "/database/fix-data-integrity"],
    ["GET", "/database/data-integrity-results"],
  ] as const) {
    expect((await test.call(method, `/edge/management/v1${path}`)).status).toBe(401);
    expect((await test.call(method, `/fabric/v1${path}`)).status).toBe(401);
  }
});
