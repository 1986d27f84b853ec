import { createSocket, type Socket } from "node:dgram";
import { createServer, isIPv6, type Server } from "node:net";
import { SerialQueue } from "@sallyport/async";
import { boundedLog, type Logger, listen } from "@sallyport/wire";
import { type ClientAddresses, InterceptError } from "../interceptor.ts";
import { type IpFamily, parseRange } from "../ip-range.ts";
import type { FlowEvents, FlowTransport } from "../relay/client-flow.ts";
import type { Capture, CaptureEvents } from "./capture.ts";
import { Diverter, probeDiverter } from "./diverter.ts";
import { runOnHost } from "./host-command.ts";
import { describe, type Intercept } from "./intercept-set.ts";
import { loadNativeSockets, type NativeSockets, type NativeUdp } from "./native-sockets.ts";
import { deleteRules, type ListenerPorts, renderRules } from "./rules.ts";

export interface PacketFilterOptions {
  readonly table: string;
  readonly lanIf?: string | undefined;
  /** Program that diverts packets in the place of nft. */
  readonly diverter?: string | undefined;
  readonly events: CaptureEvents;
  readonly log: Logger;
}

/** nft's tproxy: one listener for each protocol and address family, whatever the number of services, addresses and ports. */
export class PacketFilterCapture implements Capture {
  readonly kind = "packet filter";
  readonly #options: PacketFilterOptions;
  readonly #servers: Server[] = [];
  readonly #udp: NativeUdp[] = [];
  readonly #diverter: Diverter | undefined;
  readonly #listeners = { tcp: {} as Partial<Record<IpFamily, number>>, udp: {} as Partial<Record<IpFamily, number>> };
  readonly #runs = new SerialQueue();
  /** What the next run of nft loads, and its promise; undefined while none waits. */
  #next: { intercepts: readonly Intercept[]; done: Promise<void> } | undefined;

  private constructor(options: PacketFilterOptions) {
    this.#options = options;
    this.#diverter = options.diverter === undefined ? undefined : new Diverter(options.diverter, options.log);
  }

  /** @throws InterceptError `NO_KOFFI`, `NO_PROGRAM` or `NO_TPROXY` where this way is not possible, others where something is wrong */
  static async open(options: PacketFilterOptions): Promise<PacketFilterCapture> {
    const capture = new PacketFilterCapture(options);
    try {
      await capture.#listen();
      await capture.#probe();
      return capture;
    } catch (error) {
      await capture.close();
      throw error;
    }
  }

  async apply(intercepts: readonly Intercept[]): Promise<void> {
    for (const { name, ranges, protocols } of intercepts) {
      const sixth = ranges.filter((range) => range.family === 6);
      if (sixth.length > 0 && protocols.some((protocol) => this.#listeners[protocol][6] === undefined)) {
        const what = `service ${name}: ${describe(sixth)}`;
        throw new InterceptError("NO_IPV6", `${what} cannot be intercepted, as this host has no IPv6 (::1)`);
      }
    }
    if (this.#next !== undefined) {
      this.#next.intercepts = intercepts;
      return await this.#next.done;
    }
    const run = async (): Promise<void> => {
      const { intercepts: latest } = this.#next ?? { intercepts };
      this.#next = undefined;
      if (this.#diverter !== undefined) await this.#diverter.apply(latest, this.#listeners);
      else await runOnHost("nft", ["-f", "-"], renderRules(latest, { ...this.#options, listeners: this.#listeners }));
    };
    const done = this.#runs.run(run);
    this.#next = { intercepts, done };
    await done;
  }

  async close(): Promise<void> {
    await this.#runs.idle();
    const errors: unknown[] = [];
    const removal: Promise<unknown> =
      this.#diverter?.close() ?? runOnHost("nft", ["-f", "-"], deleteRules(this.#options.table));
    await removal.catch((error: unknown) => {
      if (!(error instanceof InterceptError && error.code === "NO_PROGRAM")) errors.push(error);
    });
    for (const udp of this.#udp.splice(0)) udp.close();
    // Connections that were accepted go on; `close` would wait for them.
    for (const server of this.#servers.splice(0)) server.close();
    if (errors.length > 0) throw errors[0];
  }

  async #listen(): Promise<void> {
    const native = await loadNativeSockets();
    const { events } = this.#options;
    const log = boundedLog(this.#options.log);
    for (const [family, host] of [
      [4, "127.0.0.1"],
      [6, "::1"],
    ] as const) {
      const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => events.tcp(socket));
      try {
        await listen(server, { host, port: 0 }, (err) => log.warn({ err }, "a connection could not be accepted"));
      } catch (error) {
        if (family === 4) throw error;
        log.info({ err: error }, "this host has no IPv6 loopback address; IPv6 addresses cannot be intercepted");
        continue;
      }
      this.#servers.push(server);
      native.makeTransparent(server, family);
      const udp = native.openUdp(family, (datagram) => {
        events.datagram(datagram, (addresses, flow) => new FlowSocket(addresses, flow, native));
      });
      this.#udp.push(udp);
      const address = server.address();
      if (address === null || typeof address === "string")
        throw new InterceptError("NO_PORT", "the listener has no port");
      this.#listeners.tcp[family] = address.port;
      this.#listeners.udp[family] = udp.port;
    }
  }

  /** Has the kernel check a rule of each kind, without loading it. */
  async #probe(): Promise<void> {
    if (this.#options.diverter !== undefined) {
      await probeDiverter(this.#options.diverter);
      return;
    }
    const listeners: ListenerPorts = this.#listeners;
    const ranges = ["192.0.2.1", ...(listeners.tcp[6] === undefined ? [] : ["2001:db8::1"])].flatMap(
      (text) => parseRange(text) ?? [],
    );
    const probe: Intercept = {
      id: "probe",
      name: "probe",
      protocols: ["tcp", "udp"],
      ranges,
      ports: [{ low: 1, high: 1 }],
      sources: [],
    };
    try {
      await runOnHost("nft", ["-c", "-f", "-"], renderRules([probe], { ...this.#options, listeners }));
    } catch (error) {
      if (!(error instanceof InterceptError) || error.code !== "COMMAND_FAILED") throw error;
      const message = `the kernel of this host does not take rules of nft's tproxy (module nft_tproxy): ${error.message}`;
      throw new InterceptError("NO_TPROXY", message, { cause: error });
    }
  }
}

/** Datagrams on their way out of a process, per flow, in bytes; further ones are dropped, as on any full queue. */
const MAX_QUEUED_BYTES = 1024 * 1024;
const MAX_BEFORE_CONNECTED = 64;

/**
 * A socket of one flow: bound to the destination that the client sent to and connected to the client. Answers leave from the
 * right address, and the kernel gives it all further datagrams of the flow, past the socket that takes the first ones.
 */
export class FlowSocket implements FlowTransport {
  readonly #socket: Socket;
  #isConnected = false;
  #isClosed = false;
  #early: Buffer[] = [];

  /** @throws InterceptError when the destination cannot be sent from */
  constructor(addresses: ClientAddresses, events: FlowEvents, native: NativeSockets) {
    const { sourceIp, sourcePort, destinationIp, destinationPort } = addresses;
    // Node itself binds to no IPv6 address that the host has only by a route. Bound first: after a failure no socket is left to close.
    const fd = native.bindUdp(destinationIp, destinationPort);
    const socket = createSocket(isIPv6(destinationIp) ? "udp6" : "udp4");
    this.#socket = socket;
    socket.on("message", (bytes) => events.message(bytes));
    socket.on("error", (error) => events.ended(error));
    socket.once("connect", () => {
      this.#isConnected = true;
      for (const bytes of this.#early) this.#send(bytes);
      this.#early = [];
    });
    socket.bind({ fd, exclusive: true }, () => {
      if (!this.#isClosed) socket.connect(sourcePort, sourceIp);
    });
  }

  send(bytes: Buffer): void {
    if (this.#isConnected) this.#send(Buffer.from(bytes));
    else if (this.#early.length < MAX_BEFORE_CONNECTED) this.#early.push(Buffer.from(bytes));
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#early = [];
    this.#socket.close();
  }

  #send(bytes: Buffer): void {
    // A client whose port is closed shows as an error of the socket; one datagram that cannot leave is lost, as datagrams may be.
    if (!this.#isClosed && this.#socket.getSendQueueSize() < MAX_QUEUED_BYTES) this.#socket.send(bytes, () => {});
  }
}
