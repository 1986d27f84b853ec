import type { PostureReport } from "@sallyport/api";
import { describe, expect, it } from "vitest";
import { FailedRequests } from "./failed-requests.ts";
import { PostureReports, REPORT_LIMITS } from "./posture-reports.ts";

const process = (path: string, id = "check"): PostureReport => ({
  typeId: "PROCESS",
  id,
  path,
  isRunning: true,
  hash: "",
  signerFingerprints: [],
});
const domain = (text: string) => ({ typeId: "DOMAIN", id: "check", domain: text }) as const;

describe("reports", () => {
  it("of a kind replace each other, processes by check and path", () => {
    const reports = new PostureReports();
    for (const path of ["/a", "/b", "/a"]) reports.add("i", "s", process(path), 1);
    reports.add("i", "s", process("/a", "other"), 2);
    reports.add("i", "s", domain("one"), 1);
    reports.add("i", "s", domain("two"), 2);
    const { device } = reports.of("i", "another session");
    expect(device.domain).toEqual({ at: 2, checkId: "check", domain: "two" });
    expect(device.processes.map(({ checkId, path }) => [checkId, path])).toEqual([
      ["check", "/b"],
      ["check", "/a"],
      ["other", "/a"],
    ]);
  });

  it("of one identity are bounded in number and length: the newest stay", () => {
    const reports = new PostureReports({ ...REPORT_LIMITS, maxProcesses: 3, maxCharactersEach: 500 });
    for (let i = 0; i < 10; i++) reports.add("i", "s", process(`/p${i}`), i);
    expect(reports.of("i", "s").device.processes.map((each) => each.path)).toEqual(["/p7", "/p8", "/p9"]);
    reports.add("i", "s", process(`/${"long".repeat(60)}`), 10);
    expect(reports.of("i", "s").device.processes.length).toBeLessThan(3);
    expect(reports.size.characters).toBeLessThanOrEqual(500);
    reports.add("i", "s", process(`/${"long".repeat(600)}`), 11);
    expect(reports.of("i", "s").device.processes).toEqual([]);
  });

  it("of all identities are bounded: the one that was silent longest is forgotten", () => {
    const reports = new PostureReports({ ...REPORT_LIMITS, maxIdentities: 3, maxSessions: 2 });
    for (const id of ["a", "b", "c", "a", "d"]) {
      reports.add(id, `session of ${id}`, domain(id), 1);
      reports.passedMfa(id, `session of ${id}`, 1);
    }
    expect(["a", "b", "c", "d"].filter((id) => reports.hasReported(id))).toEqual(["a", "c", "d"]);
    expect(reports.size).toMatchObject({ identities: 3, sessions: 2 });
    expect(reports.of("a", "session of a").session.mfaPassedAt).toBe(1);
    const tight = new PostureReports({ ...REPORT_LIMITS, maxCharacters: 1000 });
    for (let i = 0; i < 100; i++) tight.add(`i${i}`, "s", domain("d".repeat(100)), 1);
    expect(tight.size.characters).toBeLessThanOrEqual(1000);
    expect(tight.hasReported("i99")).toBe(true);
  });

  it("in the store only count as well, and go first", () => {
    const reports = new PostureReports({ ...REPORT_LIMITS, maxIdentities: 3, maxCharacters: 1000 });
    for (const id of ["a", "b", "c", "d"]) reports.noteStored(id, 100);
    expect(["a", "b", "c", "d"].filter((id) => reports.isUnread(id))).toEqual(["b", "c", "d"]);
    expect(reports.size).toEqual({ identities: 3, sessions: 0, characters: 300 });
    expect(reports.takeUnwritten(10)).toEqual([{ identityId: "a" }]);

    const device = { domain: { at: 1, checkId: "check", domain: "stored" }, processes: [] };
    reports.takeStored("b", device);
    reports.takeStored("c", undefined);
    expect(reports.of("b", "s").device).toEqual(device);
    expect(["b", "c", "d"].map((id) => [reports.isUnread(id), reports.hasReported(id)])).toEqual([
      [false, true],
      [false, false],
      [true, true],
    ]);
    expect(reports.hasUnwritten).toBe(false);

    reports.add("e", "s", domain("x".repeat(900)), 2);
    expect(["b", "d", "e"].filter((id) => reports.hasReported(id))).toEqual(["e"]);
    expect(reports.takeUnwritten(10).map((each) => [each.identityId, each.device !== undefined])).toEqual([
      ["e", true],
      ["d", false],
      ["b", false],
    ]);
  });

  it("are to be written once each, again when that failed, and never take the place of newer ones", () => {
    const reports = new PostureReports();
    for (const id of ["a", "b", "a"]) reports.add(id, "s", domain(id), 1);
    const first = reports.takeUnwritten(1);
    expect(first.map((each) => each.identityId)).toEqual(["a"]);
    expect(reports.takeUnwritten(5).map((each) => each.identityId)).toEqual(["b"]);
    expect(reports.hasUnwritten).toBe(false);
    reports.notWritten(first);
    expect(reports.takeUnwritten(5)).toEqual(first);
    reports.takeStored("a", { processes: [] });
    expect(reports.of("a", "s").device.domain?.domain).toBe("a");
    reports.add("a", "s", domain("newer"), 2);
    reports.removedFromStore(["a", "b"]);
    expect(["a", "b"].map((id) => reports.hasReported(id))).toEqual([true, false]);
  });

  it("are counted down to nothing when all are forgotten", () => {
    const reports = new PostureReports();
    reports.add("i", "s", domain("d"), 1);
    reports.add("i", "s", { typeId: "ENDPOINT_STATE", id: "", woken: true, unlocked: false }, 5);
    expect(reports.of("i", "s").session).toMatchObject({ wokenAt: 5 });
    reports.forgetIdentity("i");
    reports.forgetSession("s");
    expect(reports.size).toEqual({ identities: 0, sessions: 0, characters: 0 });
  });

  it("of a session do not count for another identity", () => {
    const reports = new PostureReports();
    reports.passedMfa("i", "s", 1);
    expect(reports.of("other", "s").session).toEqual({});
  });
});

describe("failed requests", () => {
  const request = (serviceId: string) => ({
    apiSessionId: "s",
    policyFailures: [],
    serviceId,
    serviceName: "",
    sessionType: "Dial" as const,
    when: "2026-01-01T00:00:00.000Z",
  });

  it("are the newest hundred of an identity", () => {
    const failed = new FailedRequests();
    for (let i = 0; i < 130; i++) failed.add("i", request(`${i}`));
    expect(failed.of("i").map((each) => each.serviceId)).toEqual(Array.from({ length: 100 }, (_, i) => `${i + 30}`));
    expect(failed.of("other")).toEqual([]);
  });

  it("are bounded over all identities", () => {
    const failed = new FailedRequests(10_000);
    for (let i = 0; i < 1000; i++) failed.add(`i${i}`, request("x"));
    expect(failed.of("i0")).toEqual([]);
    expect(failed.of("i999")).toHaveLength(1);
  });
});
