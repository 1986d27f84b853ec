import { describe, expect, it } from "vitest";
import { nextDelay } from "./dial-state.ts";
import { linkForm, linkKey } from "./link.ts";
import { contest } from "./link-registry.ts";

describe("linkForm", () => {
  it.each([
    ["v1.6.6", "grouped"],
    ["1.6.20", "grouped"],
    ["v2.0.3", "grouped"],
    ["v0.0.0", "grouped"],
    ["v1.6.6-pre1", "split"],
    ["v1.6.7-pre1", "grouped"],
    ["v1.6.5", "split"],
    ["v1.6.0", "split"],
    ["v0.34.2", "split"],
    ["", "split"],
    ["unknown", "split"],
  ])("a router of version %s is dialled %s", (version, form) => {
    expect(linkForm(version, true)).toBe(form);
    expect(linkForm(version, false)).toBe(form === "split" ? "single" : form);
  });
});

describe("linkKey", () => {
  it("writes empty bindings as default", () => {
    expect(linkKey({ dialerBinding: "", protocol: "tls", peerId: "RtrB.1", listenerBinding: "" })).toBe(
      "default->tls:RtrB.1->default",
    );
    expect(linkKey({ dialerBinding: "eth0", protocol: "tls", peerId: "RtrB.1", listenerBinding: "eth1" })).toBe(
      "eth0->tls:RtrB.1->eth1",
    );
  });
});

describe("nextDelay", () => {
  const healthy = { minRetryInterval: 5000, maxRetryInterval: 300_000, retryBackoffFactor: 1.5 };
  it("starts at the minimum, grows by the factor and stops at the maximum", () => {
    expect(nextDelay(0, healthy, 0.5)).toBe(5000);
    expect(nextDelay(5000, healthy, 0.5)).toBe(7500);
    expect(nextDelay(290_000, healthy, 0.5)).toBe(300_000);
  });
  it("never shrinks", () => {
    expect(nextDelay(8000, { ...healthy, retryBackoffFactor: 1 }, 0)).toBe(8000);
  });
});

describe("contest", () => {
  const link = (id: string, isClosed = false, duplicatesRejected = 0) => ({ id, isClosed, duplicatesRejected });
  it.each([
    ["nothing there", undefined, link("b"), "add"],
    ["the new one is closed", undefined, link("b", true), "reject"],
    ["the old one has the lower id", link("a"), link("b"), "reject"],
    ["the new one has the lower id", link("b"), link("a"), "replace"],
    ["a redial of the same link", link("a"), link("a"), "replace"],
    ["the old one is closed", link("a", true), link("b"), "replace"],
    ["the fifth duplicate", link("a", false, 4), link("b"), "reject"],
    ["the sixth duplicate", link("a", false, 5), link("b"), "replace"],
  ] as const)("%s", (_case, existing, added, outcome) => {
    expect(contest(existing, added)).toBe(outcome);
  });
});
