import { beforeEach, describe, expect, test } from "vitest";
import { type LinkReport, LinkTable, linkCost } from "./link-table.ts";

const report = (iteration = 1, id = "l1"): LinkReport => ({
  id,
  destination: "b",
  protocol: "tls",
  dialAddress: "tls:b.example:3022",
  iteration,
});

describe("link table", () => {
  let changes = 0;
  let table: LinkTable;
  beforeEach(() => {
    changes = 0;
    table = new LinkTable(65_000, () => {
      changes += 1;
    });
  });

  test("a new link is usable at a very high cost until both ends have reported", () => {
    expect(table.report("a", report(), 0)).toBe("added");
    expect(table.usable()).toEqual([{ id: "l1", source: "a", destination: "b", cost: 130_001 }]);
    table.setLatency("a", "l1", 3_900_000);
    expect(table.usable()[0]?.cost).toBe(1 + 3 + 65_000);
    table.setLatency("b", "l1", 4_000_000.5);
    expect(table.usable()[0]?.cost).toBe(8);
    expect(changes).toBe(3);
    table.setLatency("other", "l1", 1);
    table.setLatency("a", "l1", Number.NaN);
    expect(changes).toBe(3);
  });

  test("what a router can claim has bounds: links it dialed, connections, lengths", () => {
    const long = "x".repeat(300);
    expect(table.report("a", report(1, long), 0)).toBe("refused");
    expect(table.report("a", { ...report(), dialAddress: long }, 0)).toBe("refused");
    const connections = Array.from({ length: 65 }, () => ({ type: "link", localAddress: "", remoteAddress: "" }));
    const connectionState = { stateIteration: 1, connections };
    expect(table.report("a", { ...report(), connectionState }, 0)).toBe("refused");
    for (let n = 0; n < 10_000; n++) table.report("a", report(1, `l${n}`), 0);
    expect(table.report("a", report(1, "one more"), 0)).toBe("refused");
    expect(table.report("b", report(1, "of another"), 0)).toBe("added");
    expect(table.updateConnections("a", "l1", 1, connectionState)).toBe(false);
    table.remove("l7");
    expect(table.report("a", report(1, "one more"), 0)).toBe("added");
    table.fault("a", "l8", 0, 0);
    table.sweep(60_000);
    expect(table.report("a", report(1, "and one"), 0)).toBe("added");
  });

  test("only a higher iteration replaces a link; latencies are kept", () => {
    table.report("a", report(2), 0);
    table.setLatency("a", "l1", 1_000_000);
    table.setLatency("b", "l1", 1_000_000);
    expect(table.report("a", report(2), 1)).toBe("kept");
    expect(table.report("a", report(1), 1)).toBe("kept");
    expect(table.report("a", report(3), 1)).toBe("replaced");
    expect(table.get("l1")).toMatchObject({ iteration: 3, stateSince: 1 });
    expect(table.usable()[0]?.cost).toBe(3);
  });

  test("a link belongs to the router that dialed it", () => {
    table.report("a", report(1), 0);
    expect(table.report("c", report(9), 0)).toBe("refused");
    expect(table.fault("c", "l1", 0, 0)).toEqual({ kind: "unknown" });
    expect(table.updateConnections("b", "l1", 1, { stateIteration: 5, connections: [] })).toBe(false);
    expect(table.get("l1")?.state).toBe("connected");
  });

  test.each([
    ["same iteration", 2, 2, "failed"],
    ["older fault", 2, 1, "stale"],
    ["fault without iteration", 2, 0, "failed"],
    ["link without iteration", 0, 1, "failed"],
    ["newer fault", 2, 3, "failed"],
  ] as const)("fault: %s", (_name, known, fault, expected) => {
    table.report("a", report(known), 0);
    expect(table.fault("b", "l1", fault, 5).kind).toBe(expected);
    expect(table.usable()).toHaveLength(expected === "failed" ? 0 : 1);
  });

  test("a failed link comes back only by a redial, and is swept after a while", () => {
    table.report("a", report(1), 0);
    table.fault("a", "l1", 1, 10);
    expect(table.fault("a", "l1", 1, 10).kind).toBe("stale");
    expect(table.report("a", report(1), 20)).toBe("kept");
    expect(table.usable()).toHaveLength(0);
    expect(table.report("a", report(2), 20)).toBe("replaced");
    expect(table.usable()).toHaveLength(1);
    table.fault("a", "l1", 2, 30);
    table.sweep(30_029);
    expect(table.get("l1")).toBeDefined();
    table.sweep(30_030);
    expect(table.get("l1")).toBeUndefined();
    expect(table.fault("a", "l1", 2, 0)).toEqual({ kind: "unknown" });
  });

  test("connections change only for the known iteration and a newer state", () => {
    table.report("a", { ...report(2), connectionState: { stateIteration: 1, connections: [] } }, 0);
    const connections = [{ type: "link.default", localAddress: "tcp:1", remoteAddress: "tcp:2" }];
    expect(table.updateConnections("a", "l1", 1, { stateIteration: 9, connections })).toBe(false);
    expect(table.updateConnections("a", "l1", 2, { stateIteration: 1, connections })).toBe(false);
    expect(table.updateConnections("a", "l1", 2, { stateIteration: 2, connections })).toBe(true);
    expect(table.get("l1")?.connectionState.connections).toEqual(connections);
  });

  test("an administrator's changes survive a redial", () => {
    table.report("a", report(1), 0);
    table.update("l1", { staticCost: 7, isDown: true });
    expect(table.usable()).toEqual([]);
    table.report("a", report(2), 0);
    expect(table.get("l1")).toMatchObject({ staticCost: 7, isDown: true });
    expect(table.update("unknown", {})).toBeUndefined();
    expect(table.remove("l1")?.id).toBe("l1");
    expect(table.remove("l1")).toBeUndefined();
    expect(table.all()).toEqual([]);
  });

  test("one router cannot fill the memory", () => {
    for (let i = 0; i < 10_000; i++) expect(table.report("a", report(1, `l${i}`), 0)).toBe("added");
    expect(table.report("a", report(1, "one-more"), 0)).toBe("refused");
    expect(table.report("a", report(2, "l5"), 0)).toBe("replaced");
    expect(table.report("b", report(1, "other"), 0)).toBe("added");
  });

  test("cost counts whole milliseconds of each end", () => {
    expect(linkCost({ staticCost: 1, sourceLatencyNs: 1_999_999, destinationLatencyNs: 999_999 })).toBe(2);
  });
});
