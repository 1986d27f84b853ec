import type { OsType } from "@sallyport/api";
import { describe, expect, it } from "vitest";
import { mfaRemainingSeconds, promptedAt } from "./mfa.ts";
import type { CheckOf, SessionPosture } from "./posture-type.ts";
import type { ProcessReport } from "./process.ts";
import { type DevicePosture, NOTHING_REPORTED, type PostureCheck, passes } from "./types.ts";

type MfaCheck = CheckOf<"MFA">;

const NOW = 1_700_000_000_000;
const common = { id: "check", name: "check", createdAt: new Date(0), updatedAt: new Date(0) };
const at = { at: NOW, checkId: "check" };
const device = (known: Partial<DevicePosture>) => ({ device: { processes: [], ...known }, session: {} });

const os = (...operatingSystems: { type: OsType; versions: string[] }[]): PostureCheck => ({
  ...common,
  typeId: "OS",
  operatingSystems,
});
const domain = (...domains: string[]): PostureCheck => ({ ...common, typeId: "DOMAIN", domains });
const mac = (...macAddresses: string[]): PostureCheck => ({ ...common, typeId: "MAC", macAddresses });
const process = (hashes: string[] = [], signerFingerprint?: string): PostureCheck => ({
  ...common,
  typeId: "PROCESS",
  process: { osType: "Linux", path: "/a", hashes, ...(signerFingerprint === undefined ? {} : { signerFingerprint }) },
});
const multi = (
  semantic: "AllOf" | "AnyOf",
  ...processes: { path: string; osType?: OsType; hashes?: string[]; signerFingerprints?: string[] }[]
): PostureCheck => ({
  ...common,
  typeId: "PROCESS_MULTI",
  semantic,
  processes: processes.map((each) => ({ osType: "Linux", hashes: [], signerFingerprints: [], ...each })),
});
const running = (more: Partial<ProcessReport> = {}): ProcessReport => ({
  ...at,
  path: "/a",
  isRunning: true,
  hash: "",
  signerFingerprints: [],
  ...more,
});
const linux = { os: { ...at, type: "linux", version: "6.8.0", build: "" } };

describe("a check of what was never reported", () => {
  const mfa: PostureCheck = {
    ...common,
    typeId: "MFA",
    timeoutSeconds: 60,
    promptOnWake: true,
    promptOnUnlock: true,
    ignoreLegacyEndpoints: false,
  };
  it.each<[string, PostureCheck]>([
    ["OS", os({ type: "Linux", versions: [] })],
    ["DOMAIN", domain("corp.example", "")],
    ["MAC", mac("0123456789ab", "", "zz")],
    ["PROCESS", process()],
    ["PROCESS_MULTI AllOf", multi("AllOf", { path: "/a" })],
    ["PROCESS_MULTI AnyOf", multi("AnyOf", { path: "/a" })],
    ["MFA", mfa],
  ])("%s fails and does not throw", (_name, check) => {
    expect(passes(check, NOTHING_REPORTED, NOW)).toBe(false);
  });

  it("GHSA-354c-gpg9-j988: absent wake and unlock times are no events", () => {
    for (const session of [{}, { mfaPassedAt: NOW }, { wokenAt: NOW }, { unlockedAt: NOW }] as SessionPosture[]) {
      expect(passes(mfa, { ...NOTHING_REPORTED, session }, NOW)).toBe(session.mfaPassedAt !== undefined);
      expect(mfaRemainingSeconds(mfa as MfaCheck, session, NOW)).toBe(session.mfaPassedAt === undefined ? 0 : 60);
      expect(promptedAt(mfa as MfaCheck, session)).toBeUndefined();
    }
  });
});

describe("OS", () => {
  it.each<[string, { type: OsType; versions: string[] }[], string, string, boolean]>([
    ["type without case, any version", [{ type: "Linux", versions: [] }], "LINUX", "1.0.0", true],
    ["another type", [{ type: "Windows", versions: [] }], "Linux", "1.0.0", false],
    ["version in a range", [{ type: "Linux", versions: [">=5.0.0 <6.0.0", "7.0.0"] }], "Linux", "7.0.0", true],
    ["version in none", [{ type: "Linux", versions: [">=5.0.0 <6.0.0", "7.0.0"] }], "Linux", "6.5.0", false],
    ["version that is none, any version", [{ type: "Linux", versions: [] }], "Linux", "unknown", true],
    ["version that is none, a range", [{ type: "Linux", versions: [">=0.0.0"] }], "Linux", "unknown", false],
    ["macOS by its kernel", [{ type: "macOS", versions: [] }], "darwin", "14.1.0", true],
    ["a range that is none passes nothing", [{ type: "Linux", versions: ["?"] }], "Linux", "1.0.0", false],
    [
      "ranges of its own type only",
      [
        { type: "Windows", versions: [] },
        { type: "Linux", versions: [">=9.0.0"] },
      ],
      "Linux",
      "1.0.0",
      false,
    ],
    [
      "a type that is listed twice",
      [
        { type: "Linux", versions: [">=9.0.0"] },
        { type: "Linux", versions: ["1.0.0"] },
      ],
      "Linux",
      "1.0.0",
      true,
    ],
  ])("%s", (_name, systems, type, version, expected) => {
    expect(passes(os(...systems), device({ os: { ...at, type, version, build: "" } }), NOW)).toBe(expected);
  });
});

describe("DOMAIN and MAC", () => {
  it.each([
    ["CORP.example", true],
    ["corp.example", true],
    ["sub.corp.example", false],
    ["", false],
  ])("domain %s: %s", (reported, expected) => {
    const check = domain("other.example", "Corp.Example");
    expect(passes(check, device({ domain: { ...at, domain: reported } }), NOW)).toBe(expected);
  });

  it.each([
    [["0123456789ab"], true],
    [["ff-ff-ff-ff-ff-ff", "01:23:45:67:89:AB"], true],
    [["0123456789ac"], false],
    [[], false],
    [["", "zz"], false],
  ])("addresses %j: %s", (addresses, expected) => {
    const check = mac("01-23-45-67-89-ab", "zz");
    expect(passes(check, device({ mac: { ...at, addresses } }), NOW)).toBe(expected);
  });
});

describe("PROCESS", () => {
  it.each<[string, PostureCheck, ProcessReport[], boolean]>([
    ["runs", process(), [running()], true],
    ["does not run", process(), [running({ isRunning: false })], false],
    ["was reported for another check", process(), [running({ checkId: "other" })], false],
    ["has a listed hash", process(["AB", "cd"]), [running({ hash: "CD" })], true],
    ["has another hash", process(["ab"]), [running({ hash: "abcd" })], false],
    ["has no hash", process(["ab"]), [running()], false],
    ["is signed", process([], "AA:BB"), [running({ signerFingerprints: ["cc", "aabb"] })], true],
    ["is signed by another", process([], "aabb"), [running({ signerFingerprints: ["cc"] })], false],
    ["is not signed", process([], "aabb"), [running()], false],
    ["has the hash, not the signer", process(["ab"], "aabb"), [running({ hash: "ab" })], false],
    ["an empty signer asks nothing", process([], ""), [running()], true],
    ["hashes without digits match nothing", process(["zz"]), [running({ hash: "zz" })], false],
    ["the newest report counts", process(), [running({ at: NOW - 1 }), running({ isRunning: false })], false],
  ])("%s", (_name, check, processes, expected) => {
    expect(passes(check, device({ processes }), NOW)).toBe(expected);
  });
});

describe("PROCESS_MULTI", () => {
  it.each<[string, PostureCheck, ProcessReport[], boolean]>([
    ["AllOf, all", multi("AllOf", { path: "/a" }, { path: "/b" }), [running(), running({ path: "/b" })], true],
    ["AllOf, one is missing", multi("AllOf", { path: "/a" }, { path: "/b" }), [running()], false],
    ["AnyOf, one", multi("AnyOf", { path: "/a" }, { path: "/b" }), [running({ path: "/b" })], true],
    ["AnyOf, none runs", multi("AnyOf", { path: "/a" }), [running({ isRunning: false })], false],
    ["another system", multi("AnyOf", { path: "/a", osType: "Windows" }), [running()], false],
    ["any of the hashes", multi("AllOf", { path: "/a", hashes: ["aa", "bb"] }), [running({ hash: "BB" })], true],
    ["none of the hashes", multi("AllOf", { path: "/a", hashes: ["aa"] }), [running({ hash: "bb" })], false],
    [
      "any of the signers",
      multi("AllOf", { path: "/a", signerFingerprints: ["aa", "bb"] }),
      [running({ signerFingerprints: ["bb"] })],
      true,
    ],
    [
      "none of the signers",
      multi("AllOf", { path: "/a", signerFingerprints: ["aa"] }),
      [running({ signerFingerprints: [] })],
      false,
    ],
    ["a report for another check with the path", multi("AllOf", { path: "/a" }), [running({ checkId: "x" })], true],
  ])("%s", (_name, check, processes, expected) => {
    expect(passes(check, device({ ...linux, processes }), NOW)).toBe(expected);
  });

  it("fails while the system is not known", () => {
    expect(passes(multi("AnyOf", { path: "/a" }), device({ processes: [running()] }), NOW)).toBe(false);
  });
});

describe("MFA", () => {
  const mfa = (more: Partial<MfaCheck>): MfaCheck => ({
    ...common,
    typeId: "MFA",
    timeoutSeconds: -1,
    promptOnWake: false,
    promptOnUnlock: false,
    ignoreLegacyEndpoints: false,
    ...more,
  });
  const ago = (seconds: number) => NOW - seconds * 1000;
  it.each<[string, Partial<MfaCheck>, SessionPosture, boolean, number]>([
    ["never passed", {}, {}, false, 0],
    ["passed, no timeout", {}, { mfaPassedAt: ago(1e6) }, true, -1],
    ["0 is no timeout", { timeoutSeconds: 0 }, { mfaPassedAt: ago(1e6) }, true, -1],
    ["within the timeout", { timeoutSeconds: 60 }, { mfaPassedAt: ago(20) }, true, 40],
    ["at the end of the timeout", { timeoutSeconds: 60 }, { mfaPassedAt: ago(60) }, true, 0],
    ["after the timeout", { timeoutSeconds: 60 }, { mfaPassedAt: ago(61) }, false, 0],
    ["woken, not asked for", {}, { mfaPassedAt: ago(900), wokenAt: ago(600) }, true, -1],
    ["woken, in grace", { promptOnWake: true }, { mfaPassedAt: ago(900), wokenAt: ago(100) }, true, 200],
    ["woken, grace over", { promptOnWake: true }, { mfaPassedAt: ago(900), wokenAt: ago(301) }, false, 0],
    ["woken before it was passed", { promptOnWake: true }, { mfaPassedAt: ago(300), wokenAt: ago(600) }, true, -1],
    ["unlocked, in grace", { promptOnUnlock: true }, { mfaPassedAt: ago(900), unlockedAt: ago(299) }, true, 1],
    ["unlocked, grace over", { promptOnUnlock: true }, { mfaPassedAt: ago(900), unlockedAt: ago(600) }, false, 0],
    ["unlocked, only waking counts", { promptOnWake: true }, { mfaPassedAt: ago(900), unlockedAt: ago(600) }, true, -1],
    [
      "the earliest end counts",
      { timeoutSeconds: 1000, promptOnWake: true, promptOnUnlock: true },
      { mfaPassedAt: ago(900), wokenAt: ago(10), unlockedAt: ago(250) },
      true,
      50,
    ],
    [
      "timed out in grace",
      { timeoutSeconds: 60, promptOnWake: true },
      { mfaPassedAt: ago(61), wokenAt: ago(10) },
      false,
      0,
    ],
  ])("%s", (_name, more, session, expected, remaining) => {
    const check = mfa(more);
    expect(passes(check, { ...NOTHING_REPORTED, session }, NOW)).toBe(expected);
    expect(mfaRemainingSeconds(check, session, NOW)).toBe(remaining);
  });
});
