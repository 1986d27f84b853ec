import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { SerialQueue } from "@sallyport/async";
import { boundedLog, type Logger, listen } from "@sallyport/wire";
import { InterceptError } from "../interceptor.ts";
import { formatIp, widthOf } from "../ip-range.ts";
import type { Capture, CaptureEvents } from "./capture.ts";
import type { Intercept } from "./intercept-set.ts";

/** Sockets at a time, of all services. */
const MAX_LISTENERS = 2048;

interface OpenListener {
  close(): void;
}

interface ListenPlace {
  readonly protocol: "tcp" | "udp";
  readonly ip: string;
  readonly port: number;
  readonly service: string;
}

/**
 * The way without nft and koffi: one listening socket for each address and port. So it is for few addresses and ports, and a port
 * that another program has on all addresses of the host cannot be had.
 */
export class ListenerCapture implements Capture {
  readonly kind = "listeners";
  readonly #events: CaptureEvents;
  readonly #log: Logger;
  readonly #listeners = new Map<string, OpenListener>();
  readonly #changes = new SerialQueue();

  constructor(events: CaptureEvents, log: Logger) {
    this.#events = events;
    this.#log = boundedLog(log);
  }

  async apply(intercepts: readonly Intercept[]): Promise<void> {
    await this.#changes.run(() => this.#apply(placesOf(intercepts)));
  }

  async close(): Promise<void> {
    await this.#changes.idle();
    for (const listener of this.#listeners.values()) listener.close();
    this.#listeners.clear();
  }

  async #apply(places: ReadonlyMap<string, ListenPlace>): Promise<void> {
    const fresh: string[] = [];
    try {
      for (const [key, place] of places) {
        if (this.#listeners.has(key)) continue;
        this.#listeners.set(key, await this.#listen(place));
        fresh.push(key);
      }
    } catch (error) {
      for (const key of fresh) this.#end(key);
      throw error;
    }
    for (const key of this.#listeners.keys()) if (!places.has(key)) this.#end(key);
  }

  #end(key: string): void {
    this.#listeners.get(key)?.close();
    this.#listeners.delete(key);
  }

  async #listen(place: ListenPlace): Promise<OpenListener> {
    try {
      return place.protocol === "tcp" ? await this.#listenTcp(place) : await this.#listenUdp(place);
    } catch (cause) {
      throw new InterceptError(
        "ADDRESS_TAKEN",
        `service ${place.service}: ${place.protocol} ${place.ip} port ${place.port} cannot be listened on: ${advice(cause)}`,
        { cause },
      );
    }
  }

  async #listenTcp({ ip, port }: ListenPlace): Promise<OpenListener> {
    const server: Server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) =>
      this.#events.tcp(socket),
    );
    await listen(server, { host: ip, port }, (err) =>
      this.#log.warn({ err, ip, port }, "a connection could not be accepted"),
    );
    return server;
  }

  async #listenUdp({ ip, port }: ListenPlace): Promise<OpenListener> {
    const socket: UdpSocket = createSocket({ type: ip.includes(":") ? "udp6" : "udp4" });
    socket.bind({ address: ip, port, exclusive: true });
    try {
      await once(socket, "listening");
    } catch (error) {
      socket.close();
      throw error;
    }
    socket.on("error", (err) => this.#log.debug({ err, ip, port }, "UDP listener"));
    let isClosed = false;
    const send = (bytes: Buffer, toPort: number, to: string): void => {
      if (!isClosed) socket.send(Buffer.from(bytes), toPort, to, () => {});
    };
    socket.on("message", (buffer, from) => {
      const ends = { sourceIp: from.address, sourcePort: from.port, destinationIp: ip, destinationPort: port };
      this.#events.datagram({ ...ends, buffer }, () => ({
        send: (bytes) => send(bytes, from.port, from.address),
        close: () => {},
      }));
    });
    return {
      close: () => {
        isClosed = true;
        socket.close();
      },
    };
  }
}

function placesOf(intercepts: readonly Intercept[]): Map<string, ListenPlace> {
  const places = new Map<string, ListenPlace>();
  for (const { name, protocols, ranges, ports } of intercepts) {
    const portCount = ports.reduce((sum, { low, high }) => sum + high - low + 1, 0);
    for (const range of ranges) {
      const hostBits = widthOf(range.family) - range.length;
      if (hostBits > 11 || 2 ** hostBits * portCount * protocols.length + places.size > MAX_LISTENERS) {
        throw new InterceptError(
          "TOO_MANY_LISTENERS",
          `service ${name} has more addresses and ports than can be listened on one by one (${MAX_LISTENERS} in all): install nft and koffi, or narrow its ranges`,
        );
      }
      for (let offset = 0; offset < 2 ** hostBits; offset++) {
        const ip = formatIp(range.family, range.base + BigInt(offset));
        for (const protocol of protocols) {
          for (const { low, high } of ports) {
            for (let port = Math.max(low, 1); port <= high; port++) {
              const key = `${protocol} ${ip} ${port}`;
              if (!places.has(key)) places.set(key, { protocol, ip, port, service: name });
            }
          }
        }
      }
    }
  }
  return places;
}

function advice(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  switch (code) {
    case "EADDRINUSE":
      return "another program has that port on this address or on all addresses of the host; install nft and koffi, which do without";
    case "EADDRNOTAVAIL":
      return "an IPv6 address that the host has only by a route can be listened on only with the setting net.ipv6.ip_nonlocal_bind=1 of the kernel; or install nft and koffi, which do without";
    case "EACCES":
      return "ports below 1024 need the capability CAP_NET_BIND_SERVICE (or root)";
    default:
      return message;
  }
}
