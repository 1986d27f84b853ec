import { errorText } from "@sallyport/async";
import { boundedLog, type Logger } from "@sallyport/wire";
import { type AppData, parseAppData } from "../config/app-data.ts";
import type { HostConfig } from "../config/host-config.ts";
import { fillIdentity } from "../config/template.ts";
import type { HostedTerminator, Overlay, OverlayIncomingDial, OverlayService } from "../overlay.ts";
import { DatagramRelay } from "../relay/datagram-relay.ts";
import type { Relays } from "../relay/relays.ts";
import { TcpRelay } from "../relay/tcp-relay.ts";
import { connectTarget } from "./connect.ts";
import { HealthMonitor, type Offer } from "./health.ts";
import { ResolverRelay } from "./resolver.ts";
import type { SourceAddresses } from "./source-addresses.ts";
import { targetOf } from "./target.ts";

/** What hosting works with. */
export interface HostingParts {
  readonly overlay: Overlay;
  readonly sources: SourceAddresses;
  readonly relays: Relays;
  readonly log: Logger;
}

/** The terminators of one service, and what becomes of the circuits that end at them. */
export class HostedService {
  readonly #service: OverlayService;
  readonly #parts: HostingParts;
  /** Dialers are refused as often as they like. */
  readonly #refusals: Logger;
  readonly #terminators: HostedTerminator[] = [];
  readonly #monitors: HealthMonitor[] = [];
  readonly #stopped = new AbortController();
  #giveBackSources: () => Promise<void> = async () => {};

  private constructor(service: OverlayService, parts: HostingParts) {
    this.#service = service;
    this.#parts = parts;
    this.#refusals = boundedLog(parts.log);
  }

  /** Offers a service by all of its terminators. @throws what the overlay or a template says; nothing is left then */
  static async start(
    service: OverlayService,
    configs: readonly HostConfig[],
    parts: HostingParts,
  ): Promise<HostedService> {
    const hosted = new HostedService(service, parts);
    try {
      const sources = configs.flatMap(({ allowedSourceAddresses }) => allowedSourceAddresses);
      hosted.#giveBackSources = await parts.sources.acquire(sources);
      for (const [index, config] of configs.entries()) await hosted.#host(index, config);
      return hosted;
    } catch (error) {
      await hosted.close();
      throw error;
    }
  }

  /** Every terminator could be dialled, once at least. */
  get isEstablished(): boolean {
    return this.#terminators.every((terminator) => terminator.isEstablished !== false);
  }

  /** Takes the terminators back. Connections that exist go on. */
  async close(): Promise<void> {
    this.#stopped.abort(new Error("the service is no longer hosted here"));
    for (const monitor of this.#monitors) monitor.stop();
    await Promise.all(this.#terminators.map((terminator) => terminator.close()));
    await this.#giveBackSources();
  }

  async #host(index: number, config: HostConfig): Promise<void> {
    const { overlay, log } = this.#parts;
    const service = this.#service;
    const offer = offerOf(service, config);
    const terminator = await overlay.host(service, {
      index,
      ...offer,
      instanceId: instanceOf(config, overlay),
      onDial: async (dial) => await this.#answer(dial, config),
    });
    this.#terminators.push(terminator);
    log.info({ service: service.name, terminator: index, ...offer }, "the service is offered");
    const monitor = new HealthMonitor(`${service.name}_${index}`, terminator, offer, log);
    this.#monitors.push(monitor);
    monitor.start(config.checks);
  }

  async #answer(dial: OverlayIncomingDial, config: HostConfig): Promise<void> {
    const fields = { service: this.#service.name, caller: dial.callerId };
    try {
      const appData = parseAppData(dial.appData);
      if (appData.connType === "resolver") await this.#serveNames(dial, config);
      else await this.#connect(dial, config, appData);
    } catch (error) {
      const reason = errorText(error);
      this.#refusals.warn({ ...fields, reason }, "a dial was refused");
      dial.reject(reason, error);
    }
  }

  async #connect(dial: OverlayIncomingDial, config: HostConfig, appData: AppData): Promise<void> {
    const { relays, log } = this.#parts;
    const target = targetOf(config, appData);
    const signals = [this.#stopped.signal, ...(dial.signal === undefined ? [] : [dial.signal])];
    const connected = await connectTarget(target, {
      timeoutMs: config.connectTimeoutMs,
      proxy: config.proxy,
      signal: AbortSignal.any(signals),
    });
    const kind = connected.protocol === "tcp" ? "stream" : "datagrams";
    const connection = await dial.accept({ kind, ...connected.addresses }).catch((error: unknown) => {
      if (connected.protocol === "tcp") connected.socket.destroy();
      else connected.end.close();
      throw error;
    });
    const fields = { service: this.#service.name, circuitId: connection.circuitId, caller: dial.callerId };
    log.debug({ ...fields, target: connected.addresses.remoteAddress }, "a circuit was connected");
    const onEnd = (reason: string) => {
      relays.remove(relay);
      log.debug({ ...fields, reason }, "a circuit has ended");
    };
    const relay =
      connected.protocol === "tcp"
        ? new TcpRelay(connected.socket, connection, onEnd)
        : new DatagramRelay(connected.end, connection, onEnd);
    relays.add(relay);
    relay.start();
  }

  async #serveNames(dial: OverlayIncomingDial, config: HostConfig): Promise<void> {
    const { relays } = this.#parts;
    const connection = await dial.accept({ kind: "datagrams" });
    const allowed = "allowed" in config.address ? config.address.allowed : undefined;
    const relay: ResolverRelay = new ResolverRelay(connection, allowed, () => relays.remove(relay));
    relays.add(relay);
    relay.start();
  }
}

/** Identity's default, then the config, then what the identity has for this service. */
function offerOf(service: OverlayService, config: HostConfig): Offer {
  return {
    cost: service.cost ?? config.cost ?? service.defaultCost ?? 0,
    precedence: service.precedence ?? config.precedence ?? service.defaultPrecedence ?? "default",
  };
}

function instanceOf(config: HostConfig, { identity }: Overlay): string | undefined {
  if (config.bindUsingEdgeIdentity) return identity.name;
  return config.instance === undefined ? undefined : fillIdentity(config.instance, identity);
}
