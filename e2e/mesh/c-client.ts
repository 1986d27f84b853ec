import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { type ApiClient, createClient, listAll } from "@sallyport/api/client";
import { addressFromUrl, type Identity, loadIdentity } from "@sallyport/wire";
import { type TestConnection, TestSdk } from "../../router/src/testing/test-sdk.ts";

/** Much more often than the C SDK asks, so that a poll meets every state of an outage. */
const POLL_MS = 50;
const RECONNECT_MS = 100;
const MAX_BINDINGS = 3;

/** A router as a client of C keeps it: by its name, connected again for as long as it is listed. */
interface RouterChannel {
  readonly name: string;
  port: number;
  sdk: TestSdk | undefined;
  isClosed: boolean;
}

interface ServiceRouter {
  readonly name: string;
}

/**
 * Behaves like the C SDK towards lists of routers. It closes a router that is missing from its own list, with everything on it. A host binds on the
 * routers of the service's list, and asks for that list only while it wants more bindings.
 */
export class CClient {
  /** Routers that were closed because a list did not hold them. */
  readonly removed: string[] = [];
  readonly #api: ApiClient<"client">;
  readonly #identity: Identity;
  readonly #token: string;
  readonly #channels = new Map<string, RouterChannel>();
  readonly #bound = new Set<TestSdk>();
  #isClosed = false;

  private constructor(api: ApiClient<"client">, identity: Identity, token: string) {
    this.#api = api;
    this.#identity = identity;
    this.#token = token;
    void this.#poll();
  }

  static async load(identityFile: string): Promise<CClient> {
    const { ztAPI, id } = JSON.parse(readFileSync(identityFile, "utf8"));
    const identity = await loadIdentity(id, "/");
    const { certPem, keyPem, caPem } = identity;
    const baseUrl = new URL(ztAPI).origin;
    const api = createClient("client", {
      baseUrl,
      ca: caPem,
      tls: { cert: certPem, key: keyPem, allowPartialTrustChain: true },
    });
    const { data } = await api.authenticate({ query: { method: "cert" }, body: {} });
    api.setToken(data.token);
    return new CClient(api, identity, data.token);
  }

  /** Hosts a service for as long as the client lives; every connection gets its bytes back. */
  async host(serviceId: string): Promise<void> {
    const { data: session } = await this.#api.createSession({ body: { serviceId, type: "Bind" } });
    const listenerId = randomUUID();
    let routers = await this.#serviceRouters(serviceId);
    void this.#forever(RECONNECT_MS, async () => {
      const target = Math.min(MAX_BINDINGS, routers.length);
      if (this.#bound.size >= target) return;
      routers = await this.#serviceRouters(serviceId);
      for (const { name } of routers) {
        const sdk = this.#channels.get(name)?.sdk;
        if (sdk === undefined || this.#bound.has(sdk) || this.#bound.size >= MAX_BINDINGS) continue;
        this.#bound.add(sdk);
        sdk.channel.onClose(() => this.#bound.delete(sdk));
        sdk.onConnection = (connection) => {
          connection.onData = (buffer, start, end) => connection.send(Buffer.from(buffer.subarray(start, end)));
        };
        await sdk.bind(session.token, { listenerId }).catch(() => this.#bound.delete(sdk));
      }
    });
  }

  async dial(serviceId: string): Promise<TestConnection> {
    const { data: session } = await this.#api.createSession({ body: { serviceId, type: "Dial" } });
    const connected = session.edgeRouters.flatMap(({ name }) => this.#channels.get(name)?.sdk ?? []);
    const [sdk] = connected;
    if (sdk === undefined) throw new Error("no router of the session is connected");
    return await sdk.connect(session.token);
  }

  close(): void {
    this.#isClosed = true;
    for (const channel of this.#channels.values()) this.#closeChannel(channel);
    this.#api.close();
  }

  async #poll(): Promise<void> {
    await this.#forever(POLL_MS, async () => {
      const listed = await listAll((query) => this.#api.getCurrentIdentityEdgeRouters({ query }));
      const missing = new Set(this.#channels.keys());
      for (const { name, supportedProtocols } of listed) {
        missing.delete(name);
        const { tls } = supportedProtocols;
        if (tls === undefined) continue;
        const { port } = addressFromUrl(tls);
        const known = this.#channels.get(name);
        if (known !== undefined) known.port = port;
        else this.#keep({ name, port, sdk: undefined, isClosed: false });
      }
      for (const name of missing) {
        const channel = this.#channels.get(name);
        if (channel !== undefined) this.#closeChannel(channel);
        this.#channels.delete(name);
        this.removed.push(name);
      }
    });
  }

  #keep(channel: RouterChannel): void {
    this.#channels.set(channel.name, channel);
    void this.#forever(
      RECONNECT_MS,
      async () => {
        if (channel.sdk !== undefined) return;
        const sdk = await TestSdk.connect(channel.port, { identity: this.#identity, token: this.#token });
        channel.sdk = sdk;
        sdk.channel.onClose(() => {
          channel.sdk = undefined;
        });
        if (channel.isClosed) sdk.close();
      },
      () => channel.isClosed,
    );
  }

  #closeChannel(channel: RouterChannel): void {
    channel.isClosed = true;
    channel.sdk?.close();
  }

  async #serviceRouters(serviceId: string): Promise<readonly ServiceRouter[]> {
    const { data } = await this.#api.listServiceEdgeRouters({ params: { id: serviceId } });
    return data.edgeRouters;
  }

  /** What fails is tried again: the controller or a router is away. */
  async #forever(pauseMs: number, act: () => Promise<void>, isOver: () => boolean = () => false): Promise<void> {
    while (!this.#isClosed && !isOver()) {
      await act().catch(() => {});
      await delay(pauseMs);
    }
  }
}
