import { Listeners } from "@sallyport/async";
import {
  acceptChannels,
  type Channel,
  CONTROL_ALPN,
  ControlHello,
  Headers,
  type Identity,
  type Logger,
  type Message,
  silentLogger,
  TlsPort,
  versionInfo,
} from "@sallyport/wire";
import { Controllers, type ControllersOptions } from "../control/controllers/controllers.ts";

/** A controller that does what a test tells it to: real TLS, real channels, no model behind it. */
export class ScriptedController {
  readonly port: TlsPort;
  readonly received: Message[] = [];
  readonly hellos: Channel[] = [];
  /** Version info of the result; `undefined` leaves it out. */
  version: string | undefined = versionInfo();
  capabilities: number | Buffer = 0x0e;
  /** The mask under the number that 2.x uses; header 12 then means something else. */
  capabilitiesV2: number | undefined;
  readonly #handlers = new Map<number, (message: Message, channel: Channel) => void>();
  readonly #waiters = new Listeners();
  #taken = 0;

  private constructor(port: TlsPort, id: string) {
    this.port = port;
    acceptChannels(port, {
      name: "ctrl",
      protocols: [CONTROL_ALPN],
      acceptsNoAlpn: false,
      id,
      log: silentLogger,
      resultHeaders: () => {
        const mask = typeof this.capabilities === "number" ? Buffer.of(this.capabilities) : this.capabilities;
        const headers = new Headers().set(ControlHello.Capabilities, mask);
        if (this.capabilitiesV2 !== undefined) headers.set(ControlHello.CapabilitiesV2, Buffer.of(this.capabilitiesV2));
        return this.version === undefined ? headers : headers.setString(ControlHello.Version, this.version);
      },
      onChannel: (channel) => {
        this.hellos.push(channel);
        channel.handleOther((message) => {
          this.received.push(message);
          this.#handlers.get(message.contentType)?.(message, channel);
          this.#waiters.emit();
        });
        this.#waiters.emit();
      },
    });
  }

  static async start(identity: Identity, id = "ctrl1", port = 0): Promise<ScriptedController> {
    return new ScriptedController(await TlsPort.listen({ host: "127.0.0.1", port, identity }), id);
  }

  get address(): { protocol: string; host: string; port: number } {
    return { protocol: "tls", host: "localhost", port: this.port.port };
  }

  /** The newest channel; waits for the first. */
  async channel(): Promise<Channel> {
    await this.#until(() => this.hellos.length > 0);
    return this.hellos[this.hellos.length - 1] as Channel;
  }

  async connections(count: number): Promise<void> {
    await this.#until(() => this.hellos.length >= count);
  }

  on(contentType: number, handler: (message: Message, channel: Channel) => void): void {
    this.#handlers.set(contentType, handler);
  }

  /** The next message of this type that no call has returned before, received or to come. */
  async next(contentType: number): Promise<Message> {
    let found = -1;
    await this.#until(() => {
      found = this.received.findIndex((message, i) => i >= this.#taken && message.contentType === contentType);
      return found >= 0;
    });
    const message = this.received[found] as Message;
    this.#taken = found + 1;
    return message;
  }

  close(): Promise<void> {
    return this.port.close();
  }

  #until(condition: () => boolean): Promise<void> {
    if (condition()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        remove();
        const types = this.received.map((message) => message.contentType).join(" ");
        reject(new Error(`the controller waited without success; it received: ${types}`));
      }, 10_000);
      const look = (): void => {
        if (!condition()) return;
        clearTimeout(timer);
        remove();
        resolve();
      };
      const remove = this.#waiters.add(look);
    });
  }
}

/** Control channels of a router in a test: the given identity, hello without listeners, fast requests. */
export function testControllers(
  identity: Identity,
  heartbeats: Partial<ControllersOptions["heartbeats"]> = {},
  log: Logger = silentLogger,
): Controllers {
  return new Controllers({
    identity: () => identity,
    hello: () => ({ idToken: identity.id, headers: new Headers().setString(ControlHello.Version, versionInfo()) }),
    connectTimeoutMs: 5000,
    requestTimeoutMs: 5000,
    heartbeats: {
      sendIntervalMs: 10_000,
      checkIntervalMs: 1000,
      unresponsiveAfterMs: 5000,
      closeUnresponsiveMs: 30_000,
      ...heartbeats,
    },
    log,
    retryMs: 50,
  });
}
