import type { Channel } from "../channel/channel.ts";
import { type ChannelDialOptions, dialChannel } from "../channel/dialer.ts";
import { type AcceptOptions, acceptChannels } from "../channel/listener.ts";
import type { Identity } from "../identity/identity.ts";
import { silentLogger } from "../log.ts";
import { TlsPort } from "../socket/tls-port.ts";
import { TestAuthority } from "./authority.ts";

/** A listener on a free port and dials to it, for tests. Every channel it accepted is in `accepted`, oldest first. */
export class TestListener {
  readonly port: TlsPort;
  readonly identity: Identity;
  readonly accepted: Channel[] = [];
  readonly #stop: () => void;
  #wake: (() => void)[] = [];

  private constructor(port: TlsPort, identity: Identity, options: Partial<AcceptOptions>) {
    this.port = port;
    this.identity = identity;
    this.#stop = acceptChannels(port, {
      name: "edge",
      protocols: ["ziti-edge"],
      acceptsNoAlpn: true,
      id: identity.id,
      log: silentLogger,
      ...options,
      onChannel: (channel) => {
        this.accepted.push(channel);
        options.onChannel?.(channel);
        for (const wake of this.#wake.splice(0)) wake();
      },
    });
  }

  /** @param port default: one that the system chooses, which it may give to others once this listener is closed */
  static async start(options: Partial<AcceptOptions> = {}, identity?: Identity, port = 0): Promise<TestListener> {
    const own = identity ?? (await (await TestAuthority.create()).identity("rtr"));
    return new TestListener(await TlsPort.listen({ host: "127.0.0.1", port, identity: own }), own, options);
  }

  get address(): string {
    return `tls:127.0.0.1:${this.port.port}`;
  }

  /** The n-th channel accepted, as soon as there is one. */
  async channel(n = 0): Promise<Channel> {
    for (;;) {
      const channel = this.accepted[n];
      if (channel !== undefined) return channel;
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  dial(options: Partial<ChannelDialOptions> = {}): Promise<Channel> {
    return dialChannel({ address: this.address, identity: this.identity, hello: { idToken: "me" }, ...options });
  }

  async close(): Promise<void> {
    this.#stop();
    await this.port.close();
  }
}
