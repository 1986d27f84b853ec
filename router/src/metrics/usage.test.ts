import { DestinationType, silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Circuit } from "../forwarder/circuit.ts";
import { Traffic } from "./traffic.ts";
import { Usage, type UsageInReport } from "./usage.ts";

const { Start, End, Link } = DestinationType;

beforeEach(() => {
  vi.useFakeTimers();
  vi.setSystemTime(1_000_000);
});

afterEach(() => {
  vi.useRealTimers();
});

/** A circuit that begins here and goes on over a link. */
function initiated(id: string): Circuit {
  const circuit = new Circuit(id, "ctrl", Date.now(), { serviceId: "s1" });
  circuit.route("x1", "l1").leadsTo = Link;
  circuit.route("l1", "x1").leadsTo = Start;
  return circuit;
}

/** Both ends of it are here. */
function local(id: string): Circuit {
  const circuit = new Circuit(id, "ctrl", Date.now());
  circuit.route("x1", "x2").leadsTo = End;
  circuit.route("x2", "x1").leadsTo = Start;
  return circuit;
}

function move(circuit: Circuit, source: string, bytes: number): void {
  const forward = circuit.from(source);
  if (forward === undefined) throw new Error(`nothing comes from ${source}`);
  forward.payloads++;
  forward.bytes += bytes;
}

function plain(intervals: UsageInReport[]) {
  return intervals.map(({ start, lengthSeconds, circuits }) => ({
    start,
    lengthSeconds,
    circuits: Object.fromEntries(
      [...circuits].map(([id, { bytes, tags }]) => [id, { ...Object.fromEntries(bytes), tags }]),
    ),
  }));
}

function usageOf(circuits: Circuit[], o: { minAgeMs?: number; endedQueue?: number } = {}): Usage {
  return new Usage({
    ...{ circuits: () => circuits, intervalMs: 60_000, minAgeMs: 0, endedQueue: 256, log: silentLogger, ...o },
  });
}

it("says who moved how much in which interval of the clock, and each byte once", () => {
  const circuits = [initiated("c1"), local("c2")];
  const [one, two] = circuits as [Circuit, Circuit];
  const usage = usageOf(circuits);
  move(one, "x1", 100);
  move(one, "l1", 7);
  move(two, "x1", 5);
  // 1,000,000 ms lies in the interval that began at 960 s.
  expect(plain(usage.take(Date.now()))).toEqual([]);
  vi.advanceTimersByTime(20_000);
  move(one, "x1", 1);
  expect(plain(usage.take(Date.now()))).toEqual([
    {
      ...{ start: 960, lengthSeconds: 60 },
      circuits: {
        c1: { "ingress.rx": 100, "fabric.tx": 100, "fabric.rx": 7, "ingress.tx": 7, tags: { serviceId: "s1" } },
        c2: { "ingress.rx": 5, "egress.tx": 5, tags: {} },
      },
    },
  ]);
  vi.advanceTimersByTime(60_000);
  expect(plain(usage.take(Date.now()))).toEqual([
    {
      start: 1020,
      lengthSeconds: 60,
      circuits: { c1: { "ingress.rx": 1, "fabric.tx": 1, tags: { serviceId: "s1" } } },
    },
  ]);
  vi.advanceTimersByTime(600_000);
  expect(usage.take(Date.now())).toEqual([]);
  usage.close();
});

it("keeps an interval until it is as old as it should be, and gives what is left on request", () => {
  const circuit = initiated("c1");
  const usage = usageOf([circuit], { minAgeMs: 80_000 });
  move(circuit, "x1", 1);
  vi.setSystemTime(1_020_000);
  vi.advanceTimersByTime(0);
  usage.collect(1_019_999);
  expect(usage.take(1_039_999)).toEqual([]);
  expect(usage.take(1_040_000).map(({ start }) => start)).toEqual([960]);
  move(circuit, "x1", 1);
  usage.collect(Date.now());
  expect(usage.take(Date.now())).toEqual([]);
  expect(usage.take(Date.now(), true)).toHaveLength(1);
  usage.close();
});

it("counts the last bytes of circuits that have ended, whether they wait in the queue or were too many for it", () => {
  const usage = usageOf([], { endedQueue: 2 });
  for (const id of ["c1", "c2", "c3"]) {
    const circuit = initiated(id);
    move(circuit, "x1", 10);
    usage.ended(circuit);
  }
  usage.collect(Date.now());
  const [interval] = usage.take(Date.now(), true);
  expect([...(interval?.circuits.keys() ?? [])]).toEqual(["c1", "c2", "c3"]);
  usage.close();
});

it("drops the oldest interval, and says so, when no controller takes what is far too much", () => {
  const warn = vi.fn();
  const circuits: Circuit[] = [];
  const usage = new Usage({
    ...{ circuits: () => circuits, intervalMs: 60_000, minAgeMs: 0, endedQueue: 16 },
    log: { ...silentLogger, warn },
  });
  for (let i = 0; i < 150_000; i++) circuits.push(initiated(`c${i}`));
  for (let minute = 0; minute < 2; minute++) {
    for (const circuit of circuits) move(circuit, "x1", 1);
    usage.collect(Date.now() + minute * 60_000);
  }
  expect(warn).toHaveBeenCalledTimes(1);
  expect(warn.mock.calls[0]?.[0]).toEqual({ interval: 960, circuits: 150_000 });
  expect(usage.take(Date.now(), true).map(({ start }) => start)).toEqual([1020]);
  usage.close();
});

it("sums up each side over the circuits there are and were", () => {
  const circuits = [initiated("c1"), local("c2")];
  const traffic = new Traffic(() => circuits);
  move(circuits[0] as Circuit, "x1", 100);
  move(circuits[1] as Circuit, "x2", 30);
  const totals = () => Object.fromEntries(traffic.totals());
  const expected = {
    ...{ "ingress.rx.bytesrate": 100, "ingress.rx.msgrate": 1, "ingress.tx.bytesrate": 30, "ingress.tx.msgrate": 1 },
    ...{ "egress.rx.bytesrate": 30, "egress.rx.msgrate": 1, "egress.tx.bytesrate": 0, "egress.tx.msgrate": 0 },
  };
  expect(totals()).toEqual(expected);
  for (const circuit of circuits.splice(0)) traffic.ended(circuit);
  expect(totals()).toEqual(expected);
  expect(new Map(traffic.histograms()).get("egress.rx.msgsize")?.snapshot()).toMatchObject({ count: 1, mean: 30 });
});
