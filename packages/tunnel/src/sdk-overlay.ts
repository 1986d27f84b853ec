import { lookup } from "node:dns/promises";
import { TUNNEL_DEFAULTS } from "@sallyport/router-config/tunnel-defaults";
import {
  Context,
  type ContextLogin,
  type ContextOptions,
  type IdentityFile,
  type IdentityInfo,
  type OneTimeCodeQuery,
  type Service,
} from "@sallyport/sdk";
import { type Logger, silentLogger } from "@sallyport/wire";
import type {
  HostedTerminator,
  Overlay,
  OverlayConnection,
  OverlayDial,
  OverlayHosting,
  OverlayIdentity,
  OverlayService,
} from "./overlay.ts";

/** What {@link SdkOverlay} throws. The published package has a copy of the SDK: these are not the classes of an SDK beside it. */
export { AuthenticationError, ControllerError, IdentityFileError } from "@sallyport/sdk";

/** The config types that a tunneler understands. */
const tunnelerConfigTypes: readonly string[] = [
  "intercept.v1",
  "ziti-tunneler-client.v1",
  "host.v2",
  "host.v1",
  "ziti-tunneler-server.v1",
];

export interface SdkOverlayOptions {
  readonly log?: Logger | undefined;
  /** How often the controller is asked for changes, in milliseconds; the time of {@link TUNNEL_DEFAULTS} when left out. */
  readonly refreshIntervalMs?: number | undefined;
  /** Ends waiting for the login. */
  readonly signal?: AbortSignal | undefined;
  /** Gives a code of an authenticator app when the network asks for one, at each login. */
  readonly oneTimeCode?: ((query: OneTimeCodeQuery) => Promise<string>) | undefined;
}

const IDENTITY_RETRY_MS = 5_000;
/** What an identity hosts with, its name and app data change without a change of its services. */
const IDENTITY_REFRESH_MS = 60_000;

type ServicesListener = (services: ReadonlyMap<string, OverlayService>) => void;

/** The overlay as an identity with a file sees it: services from the controller, circuits through edge routers. */
export class SdkOverlay implements Overlay {
  readonly #context: Context;
  readonly #log: Logger;
  #identity: IdentityInfo;
  #addresses: readonly string[] = [];
  #retry: NodeJS.Timeout | undefined;

  private constructor(context: Context, identity: IdentityInfo, log: Logger) {
    this.#context = context;
    this.#identity = identity;
    this.#log = log;
  }

  /**
   * Logs in.
   *
   * @param source path of an identity file, or its content
   * @throws IdentityFileError, AuthenticationError, ControllerError, or the signal's reason
   */
  static async load(source: string | IdentityFile, o: SdkOverlayOptions = {}): Promise<SdkOverlay> {
    return await SdkOverlay.#of(await Context.load(source, contextOptions(o)), o);
  }

  /**
   * Logs in without an identity file.
   *
   * @throws AuthenticationError, ControllerError, or the signal's reason
   */
  static async login(login: ContextLogin, o: SdkOverlayOptions = {}): Promise<SdkOverlay> {
    return await SdkOverlay.#of(await Context.login(login, contextOptions(o)), o);
  }

  static async #of(context: Context, { log = silentLogger }: SdkOverlayOptions): Promise<SdkOverlay> {
    try {
      return new SdkOverlay(context, await context.identity(), log);
    } catch (error) {
      await context.close();
      throw error;
    }
  }

  get identity(): OverlayIdentity {
    return this.#identity;
  }

  /** Host names of the controller and of the usable routers, and their IP addresses: they must not be intercepted. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  onServices(listener: ServicesListener): () => void {
    // Only the newest set counts, whichever answer about the identity comes first.
    let newest = 0;
    let known: readonly Service[] | undefined;
    const tell = (services: readonly Service[]): void => {
      known = services;
      newest++;
      void this.#tell(services, listener, newest, () => newest);
    };
    const unfollow = this.#context.onServices(tell);
    const refresh = setInterval(() => {
      if (known !== undefined) tell(known);
    }, IDENTITY_REFRESH_MS);
    refresh.unref();
    return () => {
      newest = Number.POSITIVE_INFINITY;
      clearTimeout(this.#retry);
      clearInterval(refresh);
      unfollow();
    };
  }

  async dial(service: OverlayService, o: OverlayDial): Promise<OverlayConnection> {
    const hasAppData = Object.keys(o.appData).length > 0;
    return await this.#context.connect(service.name, {
      timeoutMs: o.timeoutMs,
      datagrams: o.kind === "datagrams",
      ...(o.signal === undefined ? {} : { signal: o.signal }),
      ...(o.instanceId === undefined ? {} : { instance: o.instanceId }),
      ...(hasAppData ? { appData: Buffer.from(JSON.stringify(o.appData)) } : {}),
    });
  }

  async host(service: OverlayService, o: OverlayHosting): Promise<HostedTerminator> {
    return sdkTerminator(this.#context, service, o);
  }

  async close(): Promise<void> {
    clearTimeout(this.#retry);
    await this.#context.close();
  }

  /** What the identity hosts services with may have changed along with them. */
  async #tell(services: readonly Service[], listener: ServicesListener, mine: number, newest: () => number) {
    clearTimeout(this.#retry);
    try {
      this.#identity = await this.#context.identity();
      this.#addresses = await withAddresses(await this.#context.hosts());
    } catch (err) {
      if (newest() !== mine) return;
      this.#log.warn({ err, retryMs: IDENTITY_RETRY_MS }, "the identity could not be refreshed");
      this.#retry = setTimeout(() => void this.#tell(services, listener, mine, newest), IDENTITY_RETRY_MS);
      this.#retry.unref();
      return;
    }
    if (newest() !== mine) return;
    const identity = this.#identity;
    listener(new Map(services.map((service) => [service.id, overlayService(service, identity)])));
  }
}

function contextOptions({ log, refreshIntervalMs, signal, oneTimeCode }: SdkOverlayOptions): ContextOptions {
  return {
    log: log ?? silentLogger,
    configTypes: tunnelerConfigTypes,
    refreshIntervalMs: refreshIntervalMs ?? TUNNEL_DEFAULTS.servicePollMs,
    ...(signal === undefined ? {} : { signal }),
    ...(oneTimeCode === undefined ? {} : { oneTimeCode }),
  };
}

/** Names, and the addresses they have now; a name that has none is left alone. */
async function withAddresses(names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(names.map((name) => lookup(name, { all: true }).catch(() => [])));
  return [...new Set([...names, ...found.flat().map(({ address }) => address)])];
}

function overlayService(service: Service, identity: IdentityInfo): OverlayService {
  return {
    id: service.id,
    name: service.name,
    canDial: service.permissions.includes("Dial"),
    canBind: service.permissions.includes("Bind"),
    isEncrypted: service.encryptionRequired,
    configs: new Map(Object.entries(service.config ?? {})),
    defaultCost: identity.defaultHostingCost,
    defaultPrecedence: identity.defaultHostingPrecedence,
    cost: identity.serviceHostingCosts[service.id],
    precedence: identity.serviceHostingPrecedences[service.id],
  };
}

/** A terminator as the SDK keeps it: one on each of several routers, all offered alike. */
function sdkTerminator(context: Context, service: OverlayService, o: OverlayHosting): HostedTerminator {
  const hosted = context.host(service.name, {
    cost: o.cost,
    precedence: o.precedence,
    ...(o.instanceId === undefined ? {} : { instance: o.instanceId }),
    onDial: (dial) => {
      const { appData, callerId, signal } = dial;
      const accept = async ({ kind }: { kind: "stream" | "datagrams" }) =>
        await dial.accept({ datagrams: kind === "datagrams" });
      // A refusal is lost when its router is gone, or too full to take it.
      o.onDial({ appData, callerId, signal, accept, reject: (reason) => dial.reject(reason) }).catch(() => {});
    },
  });
  let isEstablished = false;
  void hosted.established.then(() => {
    isEstablished = true;
  });
  return {
    get isEstablished() {
      return isEstablished;
    },
    update: async (change) => hosted.update(change),
    healthEvent: (passed) => hosted.healthEvent(passed),
    close: async () => await hosted.close(),
  };
}
