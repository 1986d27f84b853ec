import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { TUNNEL_DEFAULTS } from "@sallyport/router-config/tunnel-defaults";
import { type Logger, plainAddress } from "@sallyport/wire";
import { AddressPool, normalName } from "../dns/names.ts";
import { openResolver, type Resolver } from "../dns/resolver.ts";
import {
  type ClientAddresses,
  InterceptError,
  type InterceptedClients,
  type Interception,
  type Interceptor,
  type InterceptTarget,
} from "../interceptor.ts";
import { contains, formatRange, type IpRange, parseIp, parseRange } from "../ip-range.ts";
import type { Capture, CaptureEvents } from "./capture.ts";
import { type Addresses, bestMatch, type Intercept, sortAddresses, sortPorts, sortSources } from "./intercept-set.ts";
import { ListenerCapture } from "./listener-capture.ts";
import { LocalRanges, ownAddresses, type Release } from "./local-ranges.ts";
import { PacketFilterCapture } from "./packet-filter-capture.ts";
import { UdpFlows } from "./udp-flows.ts";

export interface TproxyOptions {
  /** See `parseResolver`; this and the next one have the default of {@link TUNNEL_DEFAULTS} when absent. */
  readonly resolver?: string | undefined;
  readonly dnsSvcIpRange?: string | undefined;
  /** How long an address of a name rests before another name gets it, see `NamesOptions`. */
  readonly nameRestMs?: number | undefined;
  /** Interface of a network whose clients are to be let in even where the host's own table of rules says nothing of them. */
  readonly lanIf?: string | undefined;
  /** Program that diverts packets in the place of nft, see `Diverter`. */
  readonly diverter?: string | undefined;
  /** {@link TUNNEL_DEFAULTS} when absent or too short, as the next one. */
  readonly udpIdleTimeoutMs?: number | undefined;
  readonly udpCheckIntervalMs?: number | undefined;
  /** 8192 when absent. */
  readonly maxUdpFlows?: number | undefined;
  /**
   * Addresses and host names that the tunneler itself needs: of controllers, of routers that it links to or dials.
   * Intercepting them would cut it off, so that is refused. Asked at each interception and each question for a name.
   */
  readonly protectedAddresses?: (() => readonly string[]) | undefined;
  readonly log: Logger;
}

interface Active extends Intercept {
  readonly owner: string;
  readonly clients: InterceptedClients;
  release: Release;
  /** Established connections; they need the routes as long as they last. */
  connections: number;
  isClosed: boolean;
}

const FALL_BACK = new Set(["NO_KOFFI", "NO_PROGRAM", "NO_TPROXY"]);

/**
 * Interception on Linux: applications of this host, and of others that route through it, connect to the addresses and names of services as if
 * these were there (docs/tunnel/interception.md). Needs root, or CAP_NET_ADMIN and for ports below 1024 CAP_NET_BIND_SERVICE.
 */
export class TproxyInterceptor implements Interceptor {
  readonly #options: TproxyOptions;
  readonly #routes: LocalRanges;
  readonly #flows: UdpFlows;
  readonly #active = new Set<Active>();
  /** How many connections and flows clients have, by the address that they are to. */
  readonly #uses = new Map<string, number>();
  #capture: Capture | undefined;
  #resolver: Resolver | undefined;
  #count = 0;
  #closed: Promise<void> | undefined;

  private constructor(options: TproxyOptions, routes: LocalRanges) {
    this.#options = options;
    this.#routes = routes;
    const { minUdpIdleTimeoutMs, udpIdleTimeoutMs, minUdpCheckIntervalMs, udpCheckIntervalMs } = TUNNEL_DEFAULTS;
    this.#flows = new UdpFlows({
      accept: (addresses) => this.#acceptFlow(addresses),
      idleTimeoutMs: atLeast(options.udpIdleTimeoutMs, minUdpIdleTimeoutMs, udpIdleTimeoutMs),
      checkIntervalMs: atLeast(options.udpCheckIntervalMs, minUdpCheckIntervalMs, udpCheckIntervalMs),
      maxFlows: options.maxUdpFlows ?? 8192,
      log: options.log,
    });
  }

  /**
   * Removes what a tunneler that crashed has left behind, makes the range of names local and starts the name server.
   * @throws InterceptError which says what is missing, and what to do
   */
  static async open(options: TproxyOptions): Promise<TproxyInterceptor> {
    const pool = new AddressPool(options.dnsSvcIpRange ?? TUNNEL_DEFAULTS.dnsSvcIpRange);
    const interceptor = new TproxyInterceptor(options, await LocalRanges.open(options.log));
    try {
      await interceptor.#start(pool);
      return interceptor;
    } catch (error) {
      await interceptor
        .close()
        .catch((err: unknown) => options.log.warn({ err }, "interception could not be ended cleanly"));
      throw error;
    }
  }

  /** How packets are captured: by nft and koffi, or without them by a listener for each address and port. */
  get kind(): Capture["kind"] | undefined {
    return this.#capture?.kind;
  }

  async intercept(target: InterceptTarget, clients: InterceptedClients): Promise<Interception> {
    const { capture, resolver } = this.#parts();
    const addresses = sortAddresses(target);
    this.#refuseProtected(target.name, addresses);
    const owner = `${target.id} ${++this.#count}`;
    const active: Active = {
      id: target.id,
      name: target.name,
      owner,
      clients,
      protocols: target.protocols,
      ranges: [...addresses.ranges],
      ports: sortPorts(target),
      sources: sortSources(target),
      release: async () => {},
      connections: 0,
      isClosed: false,
    };
    if (target.protocols.length === 0) {
      throw new InterceptError("BAD_TARGET", `service ${target.name}: it has no protocols; expected tcp, udp or both`);
    }
    try {
      active.release = await this.#routes.acquire(addresses.ranges);
      for (const name of addresses.names) active.ranges.push(hostRange(resolver.add(name, owner)));
      this.#active.add(active);
      for (const wildcard of addresses.wildcards) this.#addWildcard(wildcard, active, resolver);
      await capture.apply([...this.#active]);
    } catch (error) {
      await this.#end(active).catch((err: unknown) => {
        this.#options.log.warn({ err, service: target.name }, "what there was of a service could not be taken back");
      });
      throw error;
    }
    const fields = { service: target.name, addresses: target.addresses, by: capture.kind };
    this.#options.log.info(fields, "service is intercepted");
    return { close: async () => await this.#end(active) };
  }

  pending(): readonly string[] {
    return this.#resolver?.kind === "none" ? ["names are not resolved: the log says why"] : [];
  }

  async close(): Promise<void> {
    this.#closed ??= this.#close();
    await this.#closed;
  }

  async #close(): Promise<void> {
    const parts = [
      async () => await this.#resolver?.close(),
      async () => await this.#capture?.close(),
      async () => this.#flows.close(),
      async () => await this.#routes.close(),
    ];
    for (const active of this.#active) active.isClosed = true;
    this.#active.clear();
    const errors: unknown[] = [];
    for (const part of parts) await part().catch((error: unknown) => errors.push(error));
    if (errors.length > 0) throw errors[0];
  }

  async #start(pool: AddressPool): Promise<void> {
    const { log, lanIf, diverter } = this.#options;
    const { resolver = TUNNEL_DEFAULTS.resolver, dnsSvcIpRange = TUNNEL_DEFAULTS.dnsSvcIpRange } = this.#options;
    const range = parseRange(dnsSvcIpRange);
    if (range !== undefined) {
      const other = await this.#routes.takenByAnother(range);
      if (other !== undefined) {
        const message = `another tunneler of this host uses ${other}: give this one a dnsSvcIpRange that does not overlap`;
        throw new InterceptError("RANGE_TAKEN", message);
      }
      await this.#routes.acquire([range]);
    }
    if (lanIf !== undefined && !hasInterface(lanIf)) {
      throw new InterceptError("BAD_INTERFACE", `invalid lanIf '${lanIf}': this host has no such network interface`);
    }
    const events: CaptureEvents = {
      tcp: (socket) => this.#acceptConnection(socket),
      datagram: (datagram, open) => this.#flows.take(datagram, open),
    };
    try {
      this.#capture = await PacketFilterCapture.open({ table: this.#routes.slot.table, lanIf, diverter, events, log });
    } catch (error) {
      // Who names a diverter wants that one.
      if (!(error instanceof InterceptError) || !FALL_BACK.has(error.code) || diverter !== undefined) throw error;
      log.warn(
        { code: error.code },
        `interception falls back to one listener for each address and port, so wide ranges are not possible: ${error.message}`,
      );
      this.#capture = new ListenerCapture(events, log);
    }
    this.#resolver = await openResolver(resolver, {
      pool,
      log,
      isExcluded: (name) => this.#protectedNames().has(name),
      restMs: this.#options.nameRestMs,
      isInUse: (address) => this.#uses.has(address),
    });
  }

  #parts(): { capture: Capture; resolver: Resolver } {
    if (this.#closed !== undefined || this.#capture === undefined || this.#resolver === undefined) {
      throw new InterceptError("CLOSED", "interception has been closed");
    }
    return { capture: this.#capture, resolver: this.#resolver };
  }

  #addWildcard(pattern: string, active: Active, resolver: Resolver): void {
    try {
      const onAddress = async (name: string, address: string): Promise<void> => {
        active.ranges.push(hostRange(address));
        this.#options.log.debug({ service: active.name, name, address }, "name under a wildcard is intercepted");
        await this.#capture?.apply([...this.#active]);
      };
      // The next name that gets the address has it captured again.
      const onTaken = (address: string): void => {
        const { base, length } = hostRange(address);
        const at = active.ranges.findIndex((range) => range.base === base && range.length === length);
        if (at >= 0) active.ranges.splice(at, 1);
      };
      resolver.addWildcard(pattern, active.owner, onAddress, onTaken);
    } catch (err) {
      // The service's other addresses are of use without it.
      this.#options.log.error({ service: active.name, pattern, err }, "a wildcard cannot be intercepted");
    }
  }

  async #end(active: Active): Promise<void> {
    if (active.isClosed) return;
    active.isClosed = true;
    this.#active.delete(active);
    this.#resolver?.removeOwner(active.owner);
    try {
      if (this.#closed === undefined) await this.#capture?.apply([...this.#active]);
    } finally {
      if (active.connections === 0) await active.release();
    }
  }

  #hold(active: Active, destinationIp: string): () => void {
    active.connections++;
    this.#uses.set(destinationIp, (this.#uses.get(destinationIp) ?? 0) + 1);
    return () => {
      active.connections--;
      const left = (this.#uses.get(destinationIp) ?? 1) - 1;
      if (left === 0) this.#uses.delete(destinationIp);
      else this.#uses.set(destinationIp, left);
      if (active.connections > 0 || !active.isClosed || this.#closed !== undefined) return;
      active
        .release()
        .catch((err: unknown) => this.#options.log.warn({ err, service: active.name }, "routes could not be removed"));
    };
  }

  #acceptConnection(socket: Socket): void {
    const { localAddress, localPort, remoteAddress, remotePort } = socket;
    const isGone = localAddress === undefined || remoteAddress === undefined;
    if (isGone || localPort === undefined || remotePort === undefined) {
      socket.destroy();
      return;
    }
    const destinationIp = withoutZone(localAddress);
    const sourceIp = withoutZone(remoteAddress);
    const ends = { protocol: "tcp", sourceIp, destinationIp, destinationPort: localPort } as const;
    const active = bestMatch(this.#active, ends);
    if (active === undefined) {
      this.#options.log.debug({ ...ends }, "a connection to an address that is not intercepted is refused");
      socket.on("error", () => {});
      socket.resetAndDestroy();
      return;
    }
    socket.once("close", this.#hold(active, destinationIp));
    const destinationHostname = this.#resolver?.nameOf(destinationIp);
    active.clients.tcp({ addresses: { ...ends, sourcePort: remotePort, destinationHostname }, socket });
  }

  #acceptFlow(addresses: ClientAddresses): ReturnType<ConstructorParameters<typeof UdpFlows>[0]["accept"]> {
    const active = bestMatch(this.#active, addresses);
    if (active === undefined) return undefined;
    return (flow) => {
      const release = this.#hold(active, addresses.destinationIp);
      const named = { ...addresses, destinationHostname: this.#resolver?.nameOf(addresses.destinationIp) };
      let onClose: (() => void) | undefined;
      flow.onClose(() => {
        release();
        onClose?.();
      });
      active.clients.udp({
        addresses: named,
        onMessage: (listener) => flow.onMessage(listener),
        send: (buffer, start, end) => flow.send(buffer, start, end),
        onClose: (listener) => {
          onClose = listener;
        },
        close: () => flow.close(),
      });
    };
  }

  #protectedNames(): ReadonlySet<string> {
    const all = this.#options.protectedAddresses?.() ?? [];
    return new Set(all.filter((address) => parseIp(address) === undefined).map(normalName));
  }

  #refuseProtected(service: string, addresses: Addresses): void {
    const refuse = (address: string, needed: string): InterceptError =>
      new InterceptError(
        "PROTECTED_ADDRESS",
        `service ${service}: ${address} is not intercepted, as it holds ${needed}, which this tunneler itself needs; narrow the addresses of the service`,
      );
    const names = this.#protectedNames();
    for (const name of addresses.names) if (names.has(normalName(name))) throw refuse(name, normalName(name));
    const own = new Set([4, 6].flatMap((family) => ownAddresses(family as 4 | 6)).map((each) => each.address));
    const needed = [...(this.#options.protectedAddresses?.() ?? []), this.#resolver?.upstream, "127.0.0.1", "::1"];
    for (const range of addresses.ranges) {
      for (const address of needed) {
        const ip = address === undefined ? undefined : parseIp(address);
        // An address of this host stays reachable: only the ports of the service are taken.
        if (ip !== undefined && address !== undefined && contains(range, ip) && !own.has(address)) {
          throw refuse(formatRange(range), address);
        }
      }
      const held = [...own].find((address) => isInside(address, range));
      if (held !== undefined && range.length < 32) {
        const note =
          "the intercepted range holds an address of this host: other hosts of that network cannot be reached any more";
        this.#options.log.warn({ service, range: formatRange(range), address: held }, note);
      }
    }
  }
}

function isInside(address: string, range: IpRange): boolean {
  const ip = parseIp(address);
  return ip !== undefined && contains(range, ip);
}

function hostRange(address: string): IpRange {
  const range = parseRange(address);
  if (range === undefined) throw new InterceptError("BAD_ADDRESS", `${address} is no IP address`);
  return range;
}

/** As it is compared with ranges. */
function withoutZone(address: string): string {
  return plainAddress(address).replace(/%.*$/, "");
}

function atLeast(value: number | undefined, floor: number, standard: number): number {
  return value === undefined || value < floor ? standard : value;
}

/** Whether this host has a network interface of that name; Linux only. */
export function hasInterface(name: string): boolean {
  // Not /sys/class/net: that is of the namespace that mounted it, which need not be ours.
  const names = readFileSync("/proc/self/net/dev", "latin1")
    .split("\n")
    .map((line) => line.split(":")[0]?.trim());
  return /^[^\s/"]{1,15}$/.test(name) && names.includes(name);
}
