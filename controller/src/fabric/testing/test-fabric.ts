import type { X509Certificate } from "node:crypto";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { type Identity, type Logger, silentLogger, TlsPort, TraceChannel } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { vi } from "vitest";
import { fabricOptions } from "../../config/settings.ts";
import { Fabric } from "../fabric.ts";
import type { FabricOptions } from "../options.ts";
import type { RouterRecord } from "../ports.ts";
import type { ControllerSetPort, FabricReplicas } from "../replicas.ts";
import { MemoryModel } from "./memory-model.ts";
import { ScriptedRouter, type ScriptedRouterOptions } from "./scripted-router.ts";

/** Resolves when `check` no longer throws; for what a router is not told about. */
export const eventually = (check: () => void): Promise<void> => vi.waitFor(check, { timeout: 10_000 });

export interface TestNetwork {
  /** Of the controller. */
  readonly id?: string;
  readonly authority?: TestAuthority;
  readonly model?: MemoryModel;
  readonly replicas?: FabricReplicas;
}

/** A fabric on a free port over a model in memory, with routers that have real certificates. */
export class TestFabric {
  readonly fabric: Fabric;
  readonly model: MemoryModel;
  readonly port: number;
  readonly authority: TestAuthority;
  /** What the fabric trusts; tests change it while it runs. */
  readonly anchors: X509Certificate[];
  /** Identities whose circuits are traced, and the ids of the traces. */
  readonly traced: Map<string, string>;
  readonly #tlsPort: TlsPort;
  readonly #identities = new Map<string, Identity>();
  readonly #routers: ScriptedRouter[] = [];

  private constructor(
    fabric: Fabric,
    model: MemoryModel,
    tlsPort: TlsPort,
    authority: TestAuthority,
    anchors: X509Certificate[],
    traced: Map<string, string>,
  ) {
    this.traced = traced;
    this.fabric = fabric;
    this.model = model;
    this.#tlsPort = tlsPort;
    this.port = tlsPort.port;
    this.authority = authority;
    this.anchors = anchors;
  }

  /** @param beside what it shares with other controllers of the network, and which of them it is */
  static async start(
    options: Partial<FabricOptions> & { readonly controllers?: ControllerSetPort } = {},
    log: Logger = silentLogger,
    beside: TestNetwork = {},
  ): Promise<TestFabric> {
    const { id = "ctrl1", authority = await TestAuthority.create(), model = new MemoryModel(), replicas } = beside;
    const identity = await authority.identity(id);
    const tlsPort = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    const anchors = [...identity.anchors];
    const traced = new Map<string, string>();
    const traceOf = (identityId: string) => {
      const traceId = traced.get(identityId);
      return traceId === undefined ? undefined : { traceId, channelMask: TraceChannel.All };
    };
    const { controllers, ...limits } = options;
    const fabric = new Fabric({
      ...(controllers && { controllers }),
      traceOf,
      ports: [tlsPort],
      controllerId: identity.id,
      trustAnchors: () => anchors,
      model,
      ...(replicas && { replicas }),
      options: { ...fabricOptions(CONTROLLER_DEFAULTS), ...limits },
      log,
    });
    return new TestFabric(fabric, model, tlsPort, authority, anchors, traced);
  }

  /** The enrolled router's identity; made and stored in the model at the first call. */
  async enroll(id: string, extra: Partial<RouterRecord> = {}): Promise<Identity> {
    let identity = this.#identities.get(id);
    if (identity === undefined) {
      identity = await this.authority.identity(id);
      this.#identities.set(id, identity);
      this.model.addRouter(id, identity.leafFingerprint, extra);
    }
    return identity;
  }

  async connect(id: string, options: Partial<ScriptedRouterOptions> = {}): Promise<ScriptedRouter> {
    const identity = options.identity ?? (await this.enroll(id));
    const router = await ScriptedRouter.connect({ port: this.port, id, ...options, identity });
    this.#routers.push(router);
    return router;
  }

  async stop(): Promise<void> {
    for (const router of this.#routers) router.close();
    await this.fabric.close();
    await this.#tlsPort.close();
  }
}
