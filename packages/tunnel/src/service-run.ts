import { isDeepStrictEqual } from "node:util";
import { SerialQueue } from "@sallyport/async";
import type { Logger, Permission } from "@sallyport/wire";
import { type HostConfig, hostConfigs } from "./config/host-config.ts";
import { type InterceptConfig, interceptConfig, withoutConfig } from "./config/intercept-config.ts";
import { ServiceConfigError } from "./config/loose.ts";
import { DialedService } from "./dial/dialed-service.ts";
import { HostedService, type HostingParts } from "./host/hosted-service.ts";
import type { Interceptor } from "./interceptor.ts";
import type { OverlayIdentity, OverlayService } from "./overlay.ts";

/** What a service's run works with. */
export interface RunParts extends HostingParts {
  /** Undefined: nothing is intercepted. */
  readonly interceptor: Interceptor | undefined;
}

interface Running {
  /** False: not of any use yet. */
  readonly isEstablished?: boolean | undefined;
  close(): Promise<void>;
}

/** One of the two things that are done for a service. */
interface RunSide {
  readonly name: "dial" | "bind";
  /** What it depends on: another value means a new start. */
  wanted: unknown;
  running: Running | undefined;
  retry: NodeJS.Timeout | undefined;
}

/** What could not be started (a port in use, no permission) is tried again. */
const RETRY_MS = 10_000;

/** Everything that is done for one service, kept in step with what the controller says about it. */
export class ServiceRun {
  readonly name: string;
  readonly #parts: RunParts;
  readonly #log: Logger;
  readonly #dial: RunSide = { name: "dial", wanted: undefined, running: undefined, retry: undefined };
  readonly #bind: RunSide = { name: "bind", wanted: undefined, running: undefined, retry: undefined };
  /** One change after the other. */
  readonly #work = new SerialQueue();

  constructor(name: string, parts: RunParts) {
    this.name = name;
    this.#parts = parts;
    this.#log = parts.log;
  }

  /** It is hosted here, and no router has offered it yet. */
  get isBeingOffered(): boolean {
    return this.#bind.running?.isEstablished === false;
  }

  /** Brings both sides to what the service says now; a side whose part of it is the same goes on undisturbed. */
  update(service: OverlayService, overlayIdentity: OverlayIdentity): Promise<void> {
    // What templates and instance ids know of it, and nothing else that an overlay may keep there.
    const identity = { name: overlayIdentity.name, appData: overlayIdentity.appData };
    return this.#work.run(async () => {
      const { name, id, isEncrypted, configs } = service;
      const base = { id, name, isEncrypted };
      const intercept = service.canDial ? { ...base, config: this.#interceptConfig(service) } : undefined;
      await this.#become(this.#dial, intercept?.config === undefined ? undefined : intercept, async () =>
        this.#startDialing(service, intercept?.config ?? withoutConfig),
      );
      const hosting = service.canBind ? this.#hostConfigs(service) : undefined;
      const { cost, precedence, defaultCost, defaultPrecedence } = service;
      const offer = { cost, precedence, defaultCost, defaultPrecedence };
      const written = ["host.v2", "host.v1", "ziti-tunneler-server.v1"].map((type) => configs.get(type));
      await this.#become(
        this.#bind,
        hosting === undefined ? undefined : { ...base, offer, written, identity },
        async () => await HostedService.start(service, hosting ?? [], this.#parts),
      );
    });
  }

  /** Ends both sides; connections that exist go on. */
  close(): Promise<void> {
    return this.#work.run(async () => {
      await this.#become(this.#dial, undefined, undefined);
      await this.#become(this.#bind, undefined, undefined);
    });
  }

  async #become(side: RunSide, wanted: unknown, start: (() => Promise<Running>) | undefined): Promise<void> {
    if (isDeepStrictEqual(wanted, side.wanted)) return;
    side.wanted = wanted;
    await this.#stop(side);
    if (wanted !== undefined && start !== undefined) await this.#start(side, start);
  }

  async #start(side: RunSide, start: () => Promise<Running>): Promise<void> {
    try {
      side.running = await start();
    } catch (err) {
      const text = side.name === "dial" ? "the service cannot be intercepted" : "the service cannot be hosted";
      this.#log.error({ service: this.name, err, retryMs: RETRY_MS }, text);
      side.retry = setTimeout(() => {
        const { wanted } = side;
        void this.#work.run(async () => {
          if (side.wanted === wanted && side.running === undefined) await this.#start(side, start);
        });
      }, RETRY_MS);
      side.retry.unref();
    }
  }

  async #stop(side: RunSide): Promise<void> {
    clearTimeout(side.retry);
    const { running } = side;
    side.running = undefined;
    try {
      await running?.close();
    } catch (err) {
      this.#log.warn({ service: this.name, err }, "a service did not end cleanly");
    }
  }

  async #startDialing(service: OverlayService, config: InterceptConfig): Promise<Running> {
    const { interceptor } = this.#parts;
    const dialed = new DialedService(service, config, this.#parts);
    const { id, name } = service;
    const { protocols, addresses, portRanges, allowedSourceAddresses } = config;
    const target = { id, name, protocols, addresses, portRanges, allowedSourceAddresses };
    const interception = await interceptor?.intercept(target, dialed);
    this.#log.debug({ service: name, addresses, portRanges }, "the service can be dialled");
    return {
      close: async () => {
        dialed.close();
        await interception?.close();
      },
    };
  }

  #interceptConfig(service: OverlayService): InterceptConfig | undefined {
    const { interceptor } = this.#parts;
    const config = this.#read(service, "Dial", () => interceptConfig(service));
    if (config === "bad") return undefined;
    if (interceptor !== undefined) return config ?? (interceptor.interceptsByName === true ? withoutConfig : undefined);
    if (config !== undefined) {
      const text = "failed to intercept service: can not intercept services in host mode";
      this.#log.debug({ service: service.name }, text);
    }
    return undefined;
  }

  #hostConfigs(service: OverlayService): HostConfig[] | undefined {
    const configs = this.#read(service, "Bind", () => hostConfigs(service));
    if (configs === "bad") return undefined;
    if (configs === undefined) {
      this.#log.warn({ service: service.name }, "service is hostable but no compatible host config found");
    }
    return configs;
  }

  #read<T>(service: OverlayService, permission: Permission, read: () => T): T | "bad" {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof ServiceConfigError)) throw error;
      const { configType, path } = error;
      const fields = { service: service.name, permission, configType, path, reason: error.message };
      this.#log.error(fields, "a config cannot be used; this permission of the service is not used");
      return "bad";
    }
  }
}
