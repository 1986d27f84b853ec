import { edgeCtrlPb, encodeControl } from "@sallyport/wire";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeState, isOnTimeline } from "./encoding.ts";
import { type EncodedEvent, policyChangeEvents, policyEvent, serviceEvent } from "./events.ts";
import { ReceivedModel } from "./testing/received-model.ts";

const POLICY = { id: "p1", name: "everything", type: "Dial" } as const;

function events(services: number): EncodedEvent[] {
  const ids = Array.from({ length: services }, (_, n) => `service-${n}`);
  return [
    ...ids.map((id) => serviceEvent({ id, name: `name of ${id}`, encryptionRequired: true, configs: [] })),
    policyEvent(POLICY),
    ...policyChangeEvents({ policyId: "p1", kind: "service", ids, isMember: true }),
  ];
}

describe("a state", () => {
  it("is one message when it is not large", async () => {
    const { body, rest } = await encodeState(events(100), 7n, "line");
    expect(rest).toEqual([]);
    const received = new ReceivedModel(body);
    expect([received.index, received.timeline, received.services.length]).toEqual([7n, "line", 100]);
  });

  it("goes out in parts when it is large, and only with the last one leads to its index", async () => {
    const all = events(50_000);
    const whole = await encodeState(all, 7n, "line", Number.POSITIVE_INFINITY);
    const { body, rest } = await encodeState(all, 7n, "line", 256 * 1024);
    expect(body.length).toBeLessThan(512 * 1024);
    expect(rest.length).toBeGreaterThan(3);
    for (const part of rest) expect(part.length).toBeLessThan(1024 * 1024);
    const received = new ReceivedModel(body);
    for (const part of rest) {
      expect(received.index).toBe(6n);
      expect(isOnTimeline("line", received.timeline, received.index)).toBe(false);
      received.change(part);
    }
    expect(received.index).toBe(7n);
    expect(isOnTimeline("line", received.timeline, received.index)).toBe(true);
    expect(received.content()).toEqual(new ReceivedModel(whole.body).content());
  });
});

it.each([
  ["line", "line", 3n, true],
  ["line", "other", 3n, false],
  ["line", "line/parts/3", 2n, false],
  ["line", "line/parts/3", 3n, true],
  ["line", "line/parts/3", 4n, true],
  ["line", "line/r1", 4n, false],
  ["line", "line/r1/parts/3", 4n, false],
  ["line", "line/parts/", 4n, false],
  ["line", "line/parts/-1", 4n, false],
  ["line", "line/parts/0x1", 4n, false],
])("of the timeline %s: a router on %s at index %s has everything up to there: %s", (ours, given, index, expected) => {
  expect(isOnTimeline(ours, given, index)).toBe(expected);
});

it("who a policy selects is written as the library would write it", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme", minLength: 1 }),
      fc.constantFrom("service" as const, "identity" as const, "posture_check" as const),
      fc.array(fc.string({ unit: "grapheme", maxLength: 200 }), { minLength: 1, maxLength: 50 }),
      fc.boolean(),
      (policyId, kind, ids, isMember) => {
        const { RelatedService, RelatedIdentity, RelatedPostureCheck } = edgeCtrlPb.DataState_RelatedEntityType;
        const types = { service: RelatedService, identity: RelatedIdentity, posture_check: RelatedPostureCheck };
        const relatedEntityType = types[kind];
        const value = { policyId, relatedEntityIds: ids, relatedEntityType, add: isMember };
        const expected = encodeControl(edgeCtrlPb.DataState_EventSchema, {
          model: { case: "servicePolicyChange", value },
        });
        const [event = ""] = policyChangeEvents({ policyId, kind, ids, isMember });
        expect(Buffer.from(event, "latin1").equals(expected)).toBe(true);
      },
    ),
  );
});
