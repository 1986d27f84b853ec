import { create } from "@bufbuild/protobuf";
import { edgeClientPb, edgeCtrlPb } from "@sallyport/wire";
import { describe, expect, it } from "vitest";
import { PROMPT_GRACE_MS } from "./mfa.ts";
import { NOTHING_REPORTED, type PostureCheck, type PostureState, passes } from "./types.ts";
import { checkOfWire, evaluate, expiresAt } from "./wire-checks.ts";
import { MAX_POSTURE_BYTES, MAX_PROCESSES, reportsOfWire, withTotp } from "./wire-reports.ts";

const NOW = 1_700_000_000_000;

type CheckInit = Partial<edgeCtrlPb.DataState_PostureCheck>;
const check = (subtype: CheckInit["subtype"] | object, id = "c"): PostureCheck =>
  checkOfWire(create(edgeCtrlPb.DataState_PostureCheckSchema, { id, name: id, subtype } as never));

const report = (...types: object[]) =>
  create(edgeClientPb.PostureResponsesSchema, { responses: types.map((type) => ({ type })) } as never);
const taken = (before: PostureState, now: number, ...types: object[]): PostureState => {
  const reports = reportsOfWire(report(...types), before, now);
  if (reports === undefined) throw new Error("the reports were refused");
  return reports.state;
};
const time = (ms: number) => ({ seconds: BigInt(Math.floor(ms / 1000)), nanos: (ms % 1000) * 1e6 });
const program = (path: string, more: object = {}) => ({
  path,
  isRunning: true,
  hash: "",
  signerFingerprints: [],
  ...more,
});

describe("a check out of the data model", () => {
  it.each([
    ["none", { case: undefined }],
    ["processes whose meaning is unknown", { case: "processMulti", value: { semantic: "NoneOf", processes: [] } }],
  ])("that says %s is one that no device passes", (_what, subtype) => {
    const state = taken(NOTHING_REPORTED, NOW, { case: "domain", value: { name: "" } });
    expect(passes(check(subtype), state, NOW)).toBe(false);
  });

  it("passes with what devices report to routers, which names no check", () => {
    const wanted = check({
      case: "process",
      value: { osType: "Linux", path: "/a", hashes: ["AA"], fingerprints: ["bb"] },
    });
    const state = taken(NOTHING_REPORTED, NOW, {
      case: "processList",
      value: { processes: [program("/a", { hash: "aa", signerFingerprints: ["BB"] }), program("/b")] },
    });
    expect(passes(wanted, state, NOW)).toBe(true);
    const stopped = taken(state, NOW, {
      case: "processList",
      value: { processes: [program("/a", { isRunning: false })] },
    });
    expect(passes(wanted, stopped, NOW)).toBe(false);
  });

  it("fails with its id, and alone: what others ask for is not said", () => {
    const checks = [
      check({ case: "domains", value: { domains: ["corp"] } }, "d"),
      check({ case: "mac", value: { macAddresses: ["01:02"] } }, "m"),
    ];
    const state = taken(NOTHING_REPORTED, NOW, { case: "macs", value: { addresses: ["0102"] } });
    expect(evaluate(checks, state, NOW)).toEqual({ isPassing: false, failing: ["d"] });
    const both = taken(state, NOW, { case: "domain", value: { name: "CORP" } });
    expect(evaluate(checks, both, NOW)).toEqual({ isPassing: true, failing: [] });
  });
});

describe("reports of a device", () => {
  it("merge programs by path, over several lists and several messages", () => {
    const first = taken(
      NOTHING_REPORTED,
      NOW,
      { case: "processList", value: { processes: [program("/a")] } },
      { case: "processList", value: { processes: [program("/b")] } },
    );
    const second = taken(first, NOW + 1, {
      case: "processList",
      value: { processes: [program("/b", { hash: "cc" })] },
    });
    expect(second.device.processes.map(({ path, hash }) => [path, hash])).toEqual([
      ["/a", ""],
      ["/b", "cc"],
    ]);
  });

  it("keep the latest waking and unlocking, and never one to come", () => {
    const woken = (ms: number) => ({ case: "woken", value: { time: time(ms) } });
    const state = taken(NOTHING_REPORTED, NOW, woken(NOW - 5), woken(NOW - 10), {
      case: "unlocked",
      value: { time: time(NOW + 60_000) },
    });
    expect(state.session).toEqual({ wokenAt: NOW - 5, unlockedAt: NOW });
    expect(taken(NOTHING_REPORTED, NOW, { case: "woken", value: {} }).session).toEqual({ wokenAt: NOW });
  });

  it("bring proofs of passed TOTP, which change nothing by themselves", () => {
    const reports = reportsOfWire(report({ case: "totpToken", value: { token: "t" } }), NOTHING_REPORTED, NOW);
    expect(reports).toEqual({ state: NOTHING_REPORTED, totpTokens: ["t"] });
  });

  it("are bounded in programs and in bytes", () => {
    const many = (count: number) => ({
      case: "processList",
      value: { processes: Array.from({ length: count }, (_, i) => program(String(i))) },
    });
    expect(reportsOfWire(report(many(MAX_PROCESSES + 1)), NOTHING_REPORTED, NOW)).toBeUndefined();
    const name = (length: number) => report({ case: "domain", value: { name: "x".repeat(length) } });
    expect(reportsOfWire(name(MAX_POSTURE_BYTES), NOTHING_REPORTED, NOW)).toBeUndefined();
    expect(reportsOfWire(name(MAX_POSTURE_BYTES - 200), NOTHING_REPORTED, NOW)).toBeDefined();
  });

  it("of kinds that no check asks for are taken and change nothing", () => {
    expect(taken(NOTHING_REPORTED, NOW, { case: "sdkInfo", value: { appId: "a" } }, { case: undefined })).toEqual(
      NOTHING_REPORTED,
    );
  });
});

describe("TOTP at a router", () => {
  const mfa = check({ case: "mfa", value: { timeoutSeconds: 60n, promptOnWake: true, promptOnUnlock: false } });

  it("lapses with its time, and five minutes after the device woke up", () => {
    const passed = withTotp(NOTHING_REPORTED, NOW);
    expect([NOW, NOW + 60_000, NOW + 60_001].map((at) => passes(mfa, passed, at))).toEqual([true, true, false]);
    expect(expiresAt(mfa, passed)).toBe(NOW + 60_000);
    const lasting = check({ case: "mfa", value: { timeoutSeconds: -1n, promptOnWake: true } });
    expect(expiresAt(lasting, passed)).toBeUndefined();
    const woken = taken(passed, NOW + 10, { case: "woken", value: { time: time(NOW + 10) } });
    expect(expiresAt(lasting, woken)).toBe(NOW + 10 + PROMPT_GRACE_MS);
    expect(expiresAt(mfa, NOTHING_REPORTED)).toBeUndefined();
  });

  it("never moves back", () => {
    expect(withTotp(withTotp(NOTHING_REPORTED, NOW), NOW - 1000).session.mfaPassedAt).toBe(NOW);
  });
});
