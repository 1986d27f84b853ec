import { createServer, type Server } from "node:net";
import { nearestName } from "@sallyport/config-file";
import { TUNNEL_DEFAULTS } from "@sallyport/router-config/tunnel-defaults";
import { boundedLog, type Logger, listen, listenAdvice, plainAddress, silentLogger } from "@sallyport/wire";
import { hostPort } from "../config/template.ts";
import {
  InterceptError,
  type InterceptedClients,
  type Interception,
  type Interceptor,
  type InterceptTarget,
  type OfferedService,
  type Protocol,
  type UdpFlow,
} from "../interceptor.ts";
import { UdpPort } from "./udp-port.ts";

export interface ProxyOptions {
  /** Of several entries for the same service, protocol and port one counts. */
  readonly services: readonly ProxyService[];
  /** Address that the ports are opened on; `0.0.0.0` when left out. */
  readonly bindAddress?: string | undefined;
  /** A UDP client that sends and receives nothing for so long is forgotten; the time of {@link TUNNEL_DEFAULTS} when left out. */
  readonly udpIdleTimeoutMs?: number | undefined;
  readonly log?: Logger | undefined;
}

/**
 * Ports of this machine that lead to services, open as long as the identity may dial them. Clients' destination is told
 * as the address of the port, `0.0.0.0` where it is open on all.
 */
export class ProxyInterceptor implements Interceptor {
  readonly interceptsByName = true;
  readonly #o: ProxyOptions;
  readonly #bindAddress: string;
  readonly #log: Logger;
  readonly #open = new Set<Interception>();
  readonly #openPorts = new Set<ProxyService>();
  /** The last one of each port. */
  readonly #udpPorts = new Map<number, UdpPort>();

  constructor(options: ProxyOptions) {
    this.#o = options;
    this.#bindAddress = options.bindAddress ?? "0.0.0.0";
    this.#log = boundedLog(options.log ?? silentLogger);
  }

  /** Opens the ports of a service; a service without ports is ignored. @throws InterceptError `PORT_UNAVAILABLE` */
  async intercept(target: InterceptTarget, clients: InterceptedClients): Promise<Interception> {
    const wanted = new Map(
      this.#o.services
        .filter(({ name }) => name === target.name)
        .map((service) => [`${service.protocol}:${service.port}`, service]),
    );
    const ports: Interception[] = [];
    try {
      for (const service of wanted.values()) {
        ports.push(await this.#listen(service, clients));
        this.#log.info({ service: service.name, protocol: service.protocol, port: service.port }, "a port is open");
      }
    } catch (error) {
      await Promise.all(ports.map((port) => port.close()));
      throw error;
    }
    for (const service of wanted.values()) this.#openPorts.add(service);
    const interception = {
      close: async () => {
        this.#open.delete(interception);
        for (const service of wanted.values()) this.#openPorts.delete(service);
        await Promise.all(ports.map((port) => port.close()));
      },
    };
    this.#open.add(interception);
    return interception;
  }

  pending(): readonly string[] {
    const isOpen = ({ name, port, protocol }: ProxyService) =>
      [...this.#openPorts].some((open) => open.name === name && open.port === port && open.protocol === protocol);
    return this.#o.services
      .filter((service) => !isOpen(service))
      .map((o) => `${o.protocol} port ${o.port} is not open: ${o.name} may not be dialled, or see the log`);
  }

  /** Names that are not among the services that may be dialled, unless another identity has opened their ports. */
  missing(services: Iterable<OfferedService>): readonly string[] {
    const offered = new Map([...services].map((service) => [service.name, service.canDial]));
    const dialable = [...offered].filter(([, canDial]) => canDial).map(([name]) => name);
    const open = new Set([...this.#openPorts].map(({ name }) => name));
    const asked = new Set(this.#o.services.map(({ name }) => name));
    return [...asked]
      .filter((name) => !open.has(name) && offered.get(name) !== true)
      .map((name) => {
        if (offered.has(name))
          return `${name} may be hosted, but not dialled: no service policy of type Dial allows it`;
        const nearest = nearestName(name, dialable);
        const hint = nearest === undefined ? "" : `; perhaps ${nearest} is meant`;
        return `${name} does not exist, or no service policy of type Dial allows it${hint}`;
      });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((interception) => interception.close()));
  }

  async #listen(service: ProxyService, clients: InterceptedClients): Promise<Interception> {
    const { name, protocol, port } = service;
    const address = this.#bindAddress;
    try {
      if (protocol === "tcp") return await listenTcp({ address, port, clients, log: this.#log });
      const onFlow = (flow: UdpFlow) => clients.udp(flow);
      // A service that comes again meets the port that its last clients still use.
      const left = this.#udpPorts.get(port);
      if (left?.isClosing === true && !left.isClosed) return left.reopen(onFlow);
      const opened = await UdpPort.open({
        address,
        port,
        idleMs: this.#o.udpIdleTimeoutMs ?? TUNNEL_DEFAULTS.udpIdleTimeoutMs,
        onFlow,
        log: this.#log,
      });
      this.#udpPorts.set(port, opened);
      return opened;
    } catch (cause) {
      const text = `cannot listen on ${protocol} ${hostPort(address, port)} for the service ${name}: ${listenAdvice(cause)}`;
      throw new InterceptError("PORT_UNAVAILABLE", text, { cause });
    }
  }
}

async function listenTcp(o: {
  readonly address: string;
  readonly port: number;
  readonly clients: InterceptedClients;
  readonly log: Logger;
}): Promise<Interception> {
  const { address, port, clients, log } = o;
  const server: Server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    clients.tcp({
      socket,
      addresses: {
        protocol: "tcp",
        sourceIp: plainAddress(socket.remoteAddress ?? ""),
        sourcePort: socket.remotePort ?? 0,
        destinationIp: address,
        destinationPort: port,
      },
    });
  });
  await listen(server, { host: address, port }, (err) =>
    log.warn({ err, ip: address, port }, "a connection could not be accepted"),
  );
  return {
    // Accepted connections go on; their end is not waited for.
    close: async () => void server.close(),
  };
}

/** A service that is reached by a port of this machine. */
export interface ProxyService {
  readonly name: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/** Reads `<service>:<port>[:tcp|udp]`. @throws InterceptError `PROXY_SERVICE_INVALID` */
export function parseProxyService(text: string): ProxyService {
  const parts = text.split(":");
  const [name = "", port = "", protocol = "tcp"] = parts;
  if (parts.length < 2 || parts.length > 3 || name === "") {
    throw invalid(`invalid argument '${text}', expected <service>:<port>[:tcp|udp]`);
  }
  if (!/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65_535) {
    throw invalid(`invalid port specified in '${text}', expected 1 to 65535`);
  }
  const chosen = protocol.toLowerCase();
  if (chosen !== "tcp" && chosen !== "udp") {
    throw invalid(`invalid protocol specified in '${text}', must be tcp or udp`);
  }
  return { name, port: Number(port), protocol: chosen };
}

function invalid(message: string): InterceptError {
  return new InterceptError("PROXY_SERVICE_INVALID", message);
}
