import type { Socket } from "node:net";
import { type LocalPort, Xgress, type XgressOptions } from "@sallyport/wire";
import type { Forwarder } from "../forwarder/forwarder.ts";

/** A circuit that was made for a listener of the router itself. */
export interface PlainCircuit {
  readonly circuitId: string;
  /** Xgress address of the initiating end. */
  readonly address: string;
  /** The controller that made it, and that is told when its client has left. */
  readonly controllerId: string;
}

/** What listeners that know no identities need of the router. */
export interface PlainListening {
  readonly forwarder: Forwarder;
  readonly xgress: XgressOptions;
  /**
   * Has a circuit made to a service: its name or id, perhaps with `instance@` in front.
   * @throws an error whose text says why not
   */
  readonly createCircuit: (service: string) => Promise<PlainCircuit>;
  /** Gives a circuit back whose client has left. */
  readonly release: (circuit: PlainCircuit) => void;
}

/** The initiating end of a circuit, not yet started. */
export function initiate(listening: PlainListening, circuit: PlainCircuit, port: LocalPort): Xgress {
  const { forwarder: fabric, xgress: options } = listening;
  try {
    const { circuitId, address } = circuit;
    return new Xgress({ fabric, circuitId, address, side: "initiator", port, options });
  } catch (error) {
    listening.release(circuit);
    throw error;
  }
}

/** A client's request is one short line. */
const MAX_LINE = 4_096;

/**
 * The request of a plain client, `{"id":"<client>","svcId":"<service>"}`. The service is an id or a name, perhaps with
 * `instance@` in front.
 *
 * @throws Error which says what was expected
 */
export function parseRequest(text: string): { clientId: string; service: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {}
  const { id, svcId } = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  if (typeof svcId !== "string" || svcId === "") {
    throw new Error('expected a line of JSON {"id":"<client>","svcId":"<service>"}');
  }
  return { clientId: typeof id === "string" ? id : "", service: svcId };
}

/** The answer to a request: the circuit, or why there is none. */
export function answerLine(o: { circuitId: string } | { error: string }): string {
  const answer = "error" in o ? { scc: false, msg: o.error } : { scc: true, msg: "", circuitId: o.circuitId };
  return `${JSON.stringify(answer)}\n`;
}

/**
 * Reads the first line of a connection, which is paused afterwards.
 *
 * @returns the line, and what came behind it
 * @throws Error when there is none within the time or the length
 */
export function readLine(socket: Socket, timeoutMs: number): Promise<{ line: string; rest: Buffer }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ line: string; rest: Buffer }>();
  let read = Buffer.alloc(0);
  const finish = (error?: Error): void => {
    clearTimeout(timer);
    socket.off("data", onData).off("end", onEnd).off("close", onEnd).off("error", finish);
    socket.pause();
    if (error !== undefined) reject(error);
  };
  const timer = setTimeout(() => finish(new Error(`no request within ${timeoutMs} ms`)), timeoutMs);
  const onEnd = (): void => finish(new Error("the client left without a request"));
  const onData = (bytes: Buffer): void => {
    read = Buffer.concat([read, bytes]);
    const end = read.indexOf(0x0a);
    if (end > MAX_LINE || (end < 0 && read.length > MAX_LINE)) {
      finish(new Error(`a request has at most ${MAX_LINE} bytes`));
    } else if (end >= 0) {
      finish();
      resolve({ line: read.toString("utf8", 0, end), rest: read.subarray(end + 1) });
    }
  };
  socket.on("data", onData).on("end", onEnd).on("close", onEnd).on("error", finish);
  socket.resume();
  return promise;
}
