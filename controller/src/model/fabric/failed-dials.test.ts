import { describe, expect, it } from "vitest";
import { type DialFailure, FailedDials } from "./failed-dials.ts";

const dial = (code: string, serviceId = "web"): DialFailure => ({
  serviceId,
  type: "Dial",
  code,
  message: `${code} it is`,
});

function failedDials(bounds = { maxIdentities: 10, maxEach: 3, maxCharacters: 10 }) {
  const clock = { ms: 0 };
  const dials = new FailedDials(() => new Date(clock.ms), bounds);
  const add = (identityId: string, failure: DialFailure) => {
    clock.ms += 1;
    dials.add(identityId, failure);
  };
  const codes = (identityId: string, serviceId = "web") =>
    dials.of(identityId, serviceId, "Dial").failed.map(({ code }) => code);
  return { dials, clock, add, codes };
}

describe("failed dials", () => {
  it("of all identities are listed newest first, with what has succeeded since", () => {
    const { dials, clock, add } = failedDials();
    add("a", dial("ONE"));
    add("b", dial("TWO"));
    add("a", dial("THREE", "mail"));
    clock.ms += 1;
    dials.succeeded("b", "web");
    expect(dials.newest(2)).toEqual([
      expect.objectContaining({ identityId: "a", serviceId: "mail", code: "THREE", at: 3, hasSucceededSince: false }),
      expect.objectContaining({ identityId: "b", serviceId: "web", code: "TWO", at: 2, hasSucceededSince: true }),
    ]);
  });

  it("are remembered by identity, service and type, newest first, with time and router", () => {
    const { dials, add, codes } = failedDials();
    add("a", dial("ONE"));
    add("a", { ...dial("TWO"), routerId: "r1" });
    add("a", { ...dial("BIND"), type: "Bind" });
    add("b", dial("OTHER"));
    expect(codes("a")).toEqual(["TWO", "ONE"]);
    expect(dials.of("a", "web", "Dial").failed[0]).toEqual({
      at: 2,
      code: "TWO",
      message: "TWO it is",
      count: 1,
      routerId: "r1",
    });
    expect(codes("a", "mail")).toEqual([]);
    expect(codes("c")).toEqual([]);
  });

  it("count repetitions as one, until another code, or a success, comes between", () => {
    const { dials, clock, add } = failedDials();
    add("a", dial("ONE"));
    add("a", dial("TWO", "mail"));
    add("a", dial("ONE"));
    expect(dials.of("a", "web", "Dial").failed).toMatchObject([{ code: "ONE", count: 2, at: 3 }]);
    clock.ms += 1;
    dials.succeeded("a", "web");
    add("a", dial("ONE"));
    expect(dials.of("a", "web", "Dial").failed).toMatchObject([{ count: 1 }, { count: 2 }]);
  });

  it("are of the past after a success, and of the present again after a failure", () => {
    const { dials, clock, add } = failedDials();
    const isPast = () => dials.of("a", "web", "Dial").hasSucceededSince;
    dials.succeeded("a", "web");
    add("a", dial("ONE"));
    expect(isPast()).toBe(false);
    clock.ms += 1;
    dials.succeeded("a", "mail");
    expect(isPast()).toBe(false);
    dials.succeeded("a", "web");
    expect(isPast()).toBe(true);
    add("a", dial("TWO"));
    expect(isPast()).toBe(false);
  });

  it("make room among the identity's own, and are cut", () => {
    const { add, codes, dials } = failedDials();
    add("b", dial("KEPT"));
    for (let at = 0; at < 100; at++) add("a", dial(`CODE_${at}`, `service-${at}`));
    expect(codes("b")).toEqual(["KEPT"]);
    expect(codes("a", "service-96")).toEqual([]);
    expect(dials.of("a", "service-99", "Dial").failed[0]?.message).toBe("CODE_99 it");
  });

  it("of the identities that have failed least recently are forgotten first", () => {
    const { add, codes, dials } = failedDials({ maxIdentities: 2, maxEach: 3, maxCharacters: 10 });
    add("a", dial("ONE"));
    add("b", dial("ONE"));
    add("a", dial("TWO"));
    add("c", dial("ONE"));
    expect([codes("a"), codes("b"), codes("c")]).toEqual([["TWO", "ONE"], [], ["ONE"]]);
    dials.forget("a");
    expect(codes("a")).toEqual([]);
  });
});
