import type { TraceHop } from "@sallyport/sdk";
import { describe, expect, it } from "vitest";
import { measureRound, type Round, statisticsOf, type TraceRoute } from "./measurement.ts";
import { hopNames, resultText, roundLine } from "./ping-text.ts";

const signal = new AbortController().signal;
const NAMES = ["xgress/edge", "forwarder", "forwarder", "xgress/edge", "sdk/golang"];

/** A circuit over three routers; hops whose numbers are given do not answer. */
function circuit(silent: readonly number[] = [], types: readonly string[] = NAMES): TraceRoute {
  return async (hops): Promise<TraceHop> => {
    if (silent.includes(hops) || hops > types.length) {
      throw Object.assign(new Error("no reply"), { name: "RequestTimeoutError" });
    }
    const type = types[hops - 1] ?? "";
    return { type, id: type === "forwarder" ? `r${hops}` : "", milliseconds: hops };
  };
}

const round = (trace: TraceRoute, before?: Round) => measureRound(trace, { timeoutMs: 10, signal, before });
const types = ({ hops }: Round) => hops.map(({ type }) => type);

describe("a round", () => {
  it("goes from the first router to the end, whatever hosts there", async () => {
    expect(await round(circuit())).toMatchObject({ isComplete: true, hops: [{}, { id: "r2" }, { id: "r3" }, {}, {}] });
    const one = await round(circuit([], ["xgress/edge", "xgress/transport"]));
    expect([types(one), one.isComplete]).toEqual([["xgress/edge", "xgress/transport"], true]);
  });

  it("stops at a hop that never answered, and goes on behind one that did", async () => {
    const first = await round(circuit([5]));
    expect([types(first), first.isComplete]).toEqual([[...NAMES.slice(0, 4), ""], false]);
    const lost = await round(circuit([2, 5]), await round(circuit()));
    expect([types(lost), lost.isComplete]).toEqual([NAMES, false]);
    expect(lost.hops[1]).toEqual({ type: "forwarder", id: "r2" });
    expect(await round(circuit([1]))).toEqual({ hops: [{ type: "", id: "" }], isComplete: false });
  });

  it("stops where a router has no way on, and never goes in a circle", async () => {
    const broken: TraceRoute = async () => ({ type: "forwarder", id: "r1", error: "no next hop", milliseconds: 1 });
    expect(await round(broken)).toMatchObject({ isComplete: false, hops: [{ error: "no next hop" }] });
    const endless: TraceRoute = async () => ({ type: "forwarder", id: "r1", milliseconds: 1 });
    expect((await round(endless)).hops).toHaveLength(32);
  });

  it("ends with the circuit", async () => {
    const gone: TraceRoute = async () => {
      throw new Error("channel closed");
    };
    await expect(round(gone)).rejects.toThrow("channel closed");
  });
});

describe("statistics", () => {
  it("are of each hop, with the routers that are known", async () => {
    const whole = await round(circuit());
    const hops = statisticsOf([whole, await round(circuit([3]), whole)], ["r1", "r2", "r3"]);
    expect(hops).toHaveLength(5);
    expect(hops[0]).toEqual({
      ...{ hop: 1, type: "xgress/edge", routerId: "r1", sent: 2, answered: 2 },
      ...{ minMs: 1, avgMs: 1, maxMs: 1 },
    });
    expect(hops[2]).toMatchObject({ type: "forwarder", routerId: "r3", sent: 2, answered: 1 });
    expect(hops[3]).toMatchObject({ routerId: "r3" });
    expect(hops[4]).not.toHaveProperty("routerId");
    expect(statisticsOf([], [])).toEqual([]);
  });
});

describe("the text", () => {
  it("names routers, and says what is missing", async () => {
    const routers = ["one", "two", "three"].map((name, index) => ({ id: `r${index + 1}`, name }));
    const link = { id: "l", from: "one", to: "two", protocol: "tls", state: "Connected", down: false, cost: 3 };
    const path = {
      routers,
      links: [
        { ...link, latencyMs: 12.345 },
        { ...link, from: "two", to: "three" },
      ],
    };
    const rounds = [await round(circuit([5]))];
    const ids = routers.map(({ id }) => id);
    const options = { width: undefined, heading: (line: string) => line };
    const result = {
      service: "we\u001bb",
      circuitId: "c",
      dialMs: 123.4,
      sent: 1,
      answered: 0,
      path,
      notes: ["a note"],
    };
    const text = await resultText({ ...result, hops: statisticsOf(rounds, ids) }, options);
    expect(text).toContain("we\\x1bb over one and two and three: 1 sent, 0 answered, 100% lost; dialled in 123 ms");
    expect(text).toMatch(/^1 +first router one +1.00 ms +1.00 ms +1.00 ms +0 of 1$/m);
    expect(text).toMatch(/^3 +router three +3.00 ms/m);
    expect(text).toMatch(/^5 +unknown +- +- +- +1 of 1$/m);
    expect(text).toMatch(/^one – two +12.3 ms +3$/m);
    expect(text).toMatch(/^two – three +- +3$/m);
    expect(text).toMatch(/a note\n$/);
  });

  it("has a line for each round", async () => {
    const nameOf = ({ id, type }: { id: string; type: string }) => id || type;
    const line = (round: Round) => roundLine("web", 1, round, nameOf);
    const types = ["xgress/edge", "sdk/x"];
    expect(line(await round(circuit([], types)))).toBe("web: seq=1 time=2.00 ms  (xgress/edge 1.00 ms)\n");
    expect(line(await round(circuit([2], types)))).toBe("web: seq=1 no answer  (xgress/edge 1.00 ms)\n");
    const stopped = { hops: [{ type: "forwarder", id: "r1", error: "no\nway" }], isComplete: false };
    expect(line(stopped)).toBe("web: seq=1 stopped at r1: no\\nway\n");
    expect(hopNames(undefined)({ hop: 2, type: "forwarder", routerId: "r2" })).toBe("router r2");
  });
});
