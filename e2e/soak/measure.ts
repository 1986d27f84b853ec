import { Socket } from "node:net";
import { queryObjects } from "node:v8";

/** What a process itself knows of what it holds. Memory in bytes. */
export interface Measure {
  /** Also those that do not keep the process alive. */
  readonly timers: number;
  /** TCP, TLS and pipes: a TLS connection counts twice, with the socket below it. */
  readonly sockets: number;
  readonly heapUsed: number;
  readonly external: number;
  readonly rss: number;
}

// The package does not export the class.
const timer = setTimeout(() => {}, 0);
clearTimeout(timer);
const Timeout = timer.constructor as new () => object;

/** Counts what is reachable, after collecting garbage; the process stands still meanwhile. */
export function measure(): Measure {
  const count = (kind: new () => object): number => queryObjects(kind, { format: "count" });
  const [timers, sockets] = [count(Timeout), count(Socket)];
  const { heapUsed, external, rss } = process.memoryUsage();
  return { timers, sockets, heapUsed, external, rss };
}
