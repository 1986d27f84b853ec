import { SerialQueue } from "@sallyport/async";
import { type Logger, silentLogger } from "@sallyport/wire";
import { type LocalRoutes, SourceAddresses } from "./host/source-addresses.ts";
import type { Interceptor } from "./interceptor.ts";
import type { Overlay, OverlayService } from "./overlay.ts";
import { Relays } from "./relay/relays.ts";
import { ServiceRun } from "./service-run.ts";

/** What a tunneler is made of. It owns neither overlay nor interceptor: who made them closes them, after it. */
export interface TunnelerOptions {
  readonly overlay: Overlay;
  /** Gives clients of services; without one services are only hosted. */
  readonly interceptor?: Interceptor | undefined;
  /** Makes `allowedSourceAddresses` of hosted services local; without it only addresses that are local anyway can be used. */
  readonly localRoutes?: LocalRoutes | undefined;
  /** Silent when left out. */
  readonly log?: Logger | undefined;
}

/**
 * Follows the services of an identity: intercepts and dials those that it may dial, hosts those that it may host, each by
 * its configs (docs/protocol/configs.md).
 *
 * ```ts
 * const overlay = await SdkOverlay.load("me.json", { log });
 * const tunneler = new Tunneler({ overlay, interceptor: new ProxyInterceptor({ services: [parseProxyService("web:8080")] }), log });
 * tunneler.start();
 * await tunneler.close({ drainMs: 5_000 });
 * await overlay.close();
 * ```
 */
export class Tunneler {
  readonly #o: TunnelerOptions;
  readonly #log: Logger;
  readonly #relays = new Relays();
  readonly #sources: SourceAddresses;
  readonly #runs = new Map<string, ServiceRun>();
  /** One set of services after the other. */
  readonly #work = new SerialQueue();
  #missing: ReadonlySet<string> = new Set();
  #isClosed = false;
  #isSettled = false;
  #unfollow: (() => void) | undefined;

  constructor(options: TunnelerOptions) {
    this.#o = options;
    this.#log = options.log ?? silentLogger;
    this.#sources = new SourceAddresses(options.localRoutes, this.#log);
  }

  /** Circuits that are open. */
  get circuits(): number {
    return this.#relays.size;
  }

  /** What has not come about since the start, each in words: for probes. What cannot be started is told in the log, and not waited for. */
  pending(): readonly string[] {
    if (!this.#isSettled) return [`the services of ${this.#o.overlay.identity.name} are not known yet`];
    const offered = [...this.#runs.values()].filter((run) => run.isBeingOffered);
    return offered.map(({ name }) => `${name} is hosted on no router yet`);
  }

  start(): void {
    this.#unfollow ??= this.#o.overlay.onServices((services) => {
      void this.#work.run(async () => {
        if (!this.#isClosed) await this.#update(services);
      });
    });
  }

  /**
   * Takes no new connections, takes services back, waits for the open circuits to end, and ends those that are left.
   *
   * @param o.drainMs longest wait; 0 when left out
   */
  async close(o: { readonly drainMs?: number } = {}): Promise<void> {
    this.#isClosed = true;
    this.#unfollow?.();
    await this.#work.idle();
    const runs = [...this.#runs.values()];
    this.#runs.clear();
    await Promise.all(runs.map((run) => run.close()));
    const ended = await this.#relays.drain(o.drainMs ?? 0, "the tunneler stops");
    if (ended > 0) this.#log.info({ circuits: ended }, "circuits were still open and had to be ended");
  }

  /** What is gone ends first: what it held (a port) may be needed by what is new. */
  async #update(services: ReadonlyMap<string, OverlayService>): Promise<void> {
    const { overlay, interceptor } = this.#o;
    const { identity } = overlay;
    const gone = [...this.#runs].filter(([id]) => !services.has(id));
    for (const [id, run] of gone) {
      this.#log.info({ service: run.name }, "the service is gone");
      this.#runs.delete(id);
    }
    await Promise.all(gone.map(([, run]) => run.close()));
    const updates = [...services].map(([id, service]) => {
      const { name, canDial, canBind } = service;
      let run = this.#runs.get(id);
      if (run === undefined) {
        this.#log.info({ service: name, canDial, canBind }, "there is a service");
        const parts = { overlay, interceptor, sources: this.#sources, relays: this.#relays, log: this.#log };
        run = new ServiceRun(name, parts);
        this.#runs.set(id, run);
      }
      return run.update(service, identity);
    });
    await Promise.all(updates);
    this.#isSettled = true;
    this.#logMissing(services);
  }

  /** What is still missing after a change is not logged again. */
  #logMissing(services: ReadonlyMap<string, OverlayService>): void {
    const missing = new Set(this.#o.interceptor?.missing?.(services.values()));
    for (const reason of missing) {
      if (!this.#missing.has(reason))
        this.#log.warn({ reason }, "a service cannot be dialled; the tunneler waits for it");
    }
    this.#missing = missing;
  }
}
