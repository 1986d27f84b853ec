import { describe, expect, test } from "vitest";
import type { RouterRecord } from "../ports.ts";
import { AdmissionError, type AdmissionFacts, admissionRefusal, TakeoverLimit } from "./admission.ts";

const router: RouterRecord = {
  id: "r1",
  kind: "edge",
  fingerprint: "aa",
  isDisabled: false,
  isTunneler: false,
  cost: 0,
  noTraversal: false,
};
const { fingerprint: _, ...unenrolled } = router;
const good: AdmissionFacts = { fingerprint: "aa", isTrusted: true, router, mayTakeOver: true };

describe("admission", () => {
  test.each([
    ["a router with its own certificate", good, undefined],
    ["no certificate", { ...good, fingerprint: undefined }, "no-certificate"],
    ["a certificate of another CA", { ...good, isTrusted: false }, "untrusted-certificate"],
    ["an unknown id", { ...good, router: undefined }, "unknown-router"],
    ["a router that is not enrolled", { ...good, router: unenrolled }, "not-enrolled"],
    ["another certificate", { ...good, fingerprint: "bb" }, "fingerprint-mismatch"],
    ["a disabled router", { ...good, router: { ...router, isDisabled: true } }, "disabled"],
    ["too many takeovers", { ...good, mayTakeOver: false }, "churn"],
    [
      "an untrusted host never gets to the churn limit",
      { ...good, fingerprint: "bb", mayTakeOver: false },
      "fingerprint-mismatch",
    ],
  ] as const)("%s", (_name, facts, expected) => {
    expect(admissionRefusal(facts)).toBe(expected);
  });

  test("a refusal says who and why", () => {
    const error = new AdmissionError("disabled", "r1", "detail");
    expect(error.message).toBe('router "r1" refused: the router is disabled (detail)');
    expect(error.code).toBe("disabled");
  });

  test("takeovers are limited per router within a window", () => {
    const limit = new TakeoverLimit(60_000, 2);
    expect(limit.allows("r1", 0)).toBe(true);
    limit.record("r1", 0);
    limit.record("r1", 1000);
    expect(limit.allows("r1", 2000)).toBe(false);
    expect(limit.allows("r2", 2000)).toBe(true);
    expect(limit.allows("r1", 60_000)).toBe(true);
  });
});
