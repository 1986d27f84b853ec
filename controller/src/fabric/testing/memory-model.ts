import { Listeners } from "@sallyport/async";
import type { ApiSessionRecord, Permission, PrecedenceName } from "@sallyport/wire";
import type { AccessQuestion, ModelChange } from "../change-port.ts";
import type {
  CertificateExtension,
  CertificateVerifyCode,
  CircuitService,
  Denial,
  FabricModel,
  NewTerminator,
  RouterConfigs,
  RouterInterface,
  RouterRecord,
  RouterReport,
  ServiceClaim,
  SessionClaim,
  SessionGrant,
  TerminatorOutcome,
  TerminatorRecord,
  TunnelApiSession,
  TunnelClaim,
  TunnelClientInfo,
  TunnelGrant,
  TunnelService,
  TunnelSessionGrant,
  TunnelSessionRequest,
  UnknownSession,
} from "../ports.ts";
import { DenialCode } from "../ports.ts";
import { MemoryDataModel } from "./memory-data-model.ts";

/** A session of the in-memory model; `routers` are those it may use. */
export interface MemorySession {
  readonly id: string;
  readonly type: Permission;
  readonly serviceId: string;
  readonly identityId: string;
  readonly routers?: readonly string[];
}

/** The fabric's model in memory, for tests of the fabric alone. Tests change its maps and call {@link MemoryModel.emit}. */
export class MemoryModel implements FabricModel {
  readonly dataModel = new MemoryDataModel();
  /** `identity/service` pairs that may neither dial nor host. */
  /** Those whose tokens are revoked, and until when. */
  readonly revokedIdentities = new Map<string, Date>();
  readonly denied = new Set<string>();
  /** Called before an answer about access is given. */
  beforeAccess: () => Promise<void> = async () => {};
  readonly routers = new Map<string, RouterRecord>();
  readonly reports: RouterReport[] = [];
  readonly interfaces = new Map<string, readonly RouterInterface[]>();
  readonly apiSessions = new Map<string, ApiSessionRecord>();
  /** By token. */
  readonly sessions = new Map<string, MemorySession>();
  /** By token. */
  readonly accessTokens = new Map<string, { identityId: string; apiSessionId: string; issuedAt: Date }>();
  readonly configsOfRouters = new Map<string, RouterConfigs["configs"]>();
  readonly services = new Map<string, CircuitService>();
  readonly terminators = new Map<string, TerminatorRecord>();
  /** Precedences saved by a quiesce. */
  readonly saved = new Map<string, PrecedenceName>();
  readonly touched: string[] = [];
  readonly tunnelClients: TunnelClientInfo[] = [];
  tunnelList: { lastUpdate: string; services: readonly TunnelService[] } | undefined;
  tunnelSession: TunnelApiSession | undefined;
  extension: CertificateExtension | { refused: string } | undefined;
  verification: { code: CertificateVerifyCode; message: string } | undefined;
  /** Thrown by the next call that writes a terminator. */
  storeFailure: Error | undefined;
  readonly #handlers = new Listeners<[change: ModelChange]>();
  #nextId = 1;

  addRouter(id: string, fingerprint: string, extra: Partial<RouterRecord> = {}): RouterRecord {
    const router: RouterRecord = {
      id,
      kind: "edge",
      fingerprint,
      isDisabled: false,
      isTunneler: false,
      cost: 0,
      noTraversal: false,
      ...extra,
    };
    this.routers.set(id, router);
    return router;
  }

  addService(id: string, extra: Partial<CircuitService> = {}): CircuitService {
    const service: CircuitService = {
      id,
      name: `${id}-name`,
      terminatorStrategy: "smartrouting",
      encryptionRequired: false,
      maxIdleTimeMs: 0,
      ...extra,
    };
    this.services.set(id, service);
    return service;
  }

  addTerminator(
    id: string,
    serviceId: string,
    routerId: string,
    extra: Partial<TerminatorRecord> = {},
  ): TerminatorRecord {
    const terminator: TerminatorRecord = {
      id,
      serviceId,
      routerId,
      binding: "edge",
      address: id,
      instanceId: "",
      cost: 0,
      precedence: "default",
      peerData: new Map(),
      hostId: "host",
      createdAt: new Date(0),
      version: this.#nextVersion(),
      ...extra,
    };
    this.terminators.set(id, terminator);
    return terminator;
  }

  addApiSessions(count: number): ApiSessionRecord[] {
    const added = Array.from({ length: count }, () => {
      const id = `a${String(this.#nextId++).padStart(8, "0")}`;
      return { id, token: `token-${id}`, identityId: "identity", certFingerprints: ["0".repeat(40)] };
    });
    for (const session of added) this.apiSessions.set(session.id, session);
    return added;
  }

  emit(change: ModelChange): void {
    this.#handlers.emit(change);
  }

  onChange(handler: (change: ModelChange) => void): () => void {
    return this.#handlers.add(handler);
  }

  async findRouter(id: string): Promise<RouterRecord | undefined> {
    return this.routers.get(id);
  }

  async routerConfigs(routerId: string): Promise<RouterConfigs | undefined> {
    const router = this.routers.get(routerId);
    if (router === undefined) return undefined;
    const { fingerprint = "", isDisabled } = router;
    const configs = this.configsOfRouters.get(routerId) ?? [];
    return { id: routerId, name: `${routerId}-name`, fingerprint, configs, isDisabled };
  }

  async saveRouterReport(report: RouterReport): Promise<void> {
    this.reports.push(report);
  }

  async saveRouterInterfaces(routerId: string, interfaces: readonly RouterInterface[]): Promise<void> {
    this.interfaces.set(routerId, interfaces);
  }

  async deleteRouter(routerId: string): Promise<void> {
    if (!this.routers.delete(routerId)) throw new Error(`router ${routerId} does not exist`);
    this.emit({ kind: "router-removed", routerId });
  }

  async quiesceRouter(routerId: string): Promise<void> {
    for (const t of this.terminators.values()) {
      if (t.routerId !== routerId) continue;
      this.saved.set(t.id, t.precedence);
      this.terminators.set(t.id, { ...t, precedence: "failed" });
    }
  }

  async dequiesceRouter(routerId: string): Promise<void> {
    for (const t of this.terminators.values()) {
      if (t.routerId === routerId) this.terminators.set(t.id, { ...t, precedence: this.saved.get(t.id) ?? "default" });
    }
  }

  async extendRouterCertificates(): Promise<CertificateExtension | { refused: string }> {
    if (this.extension === undefined) throw new Error("the database is away");
    return this.extension;
  }

  async verifyRouterCertificate(): Promise<{ code: CertificateVerifyCode; message: string } | undefined> {
    return this.verification;
  }

  async changesRead(): Promise<void> {}

  async apiSessionsAfter(afterId: string, limit: number): Promise<readonly ApiSessionRecord[]> {
    return [...this.apiSessions.values()]
      .filter((s) => s.id > afterId)
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .slice(0, limit);
  }

  async touchApiSessions(tokens: readonly string[]): Promise<readonly string[]> {
    const known = new Set([...this.apiSessions.values()].map((s) => s.token));
    this.touched.push(...tokens.filter((token) => known.has(token)));
    return tokens.filter((token) => !known.has(token));
  }

  async unknownSessions(tokens: readonly string[]): Promise<readonly UnknownSession[]> {
    const known = new Set([...this.sessions].flatMap(([token, { id }]) => [token, id]));
    return tokens.filter((token) => !known.has(token)).map((token) => ({ token }));
  }

  async authorizeDial(claim: SessionClaim): Promise<SessionGrant | Denial> {
    return this.#authorize(claim, "Dial");
  }

  async authorizeBind(claim: SessionClaim): Promise<SessionGrant | Denial> {
    return this.#authorize(claim, "Bind");
  }

  async authorizeService(claim: ServiceClaim): Promise<SessionGrant | Denial> {
    const access = this.accessTokens.get(claim.apiSessionToken);
    if (access === undefined || access.identityId !== claim.identityId) return { denied: DenialCode.InvalidApiSession };
    const service = this.services.get(claim.serviceId);
    if (service === undefined) return { denied: DenialCode.InvalidService };
    const { identityId, apiSessionId, issuedAt: tokenIssuedAt } = access;
    if (this.denied.has(`${identityId}/${service.id}`)) return { denied: DenialCode.AccessDenied };
    return { kind: "token", tokenIssuedAt, identityId, sessionId: "", apiSessionId, service };
  }

  async findService(idOrName: string): Promise<CircuitService | undefined> {
    return this.services.get(idOrName) ?? [...this.services.values()].find((s) => s.name === idOrName);
  }

  async terminatorsOfService(serviceId: string): Promise<readonly TerminatorRecord[]> {
    return [...this.terminators.values()].filter((t) => t.serviceId === serviceId);
  }

  async terminatorsOfRouter(routerId: string, afterId: string, limit: number): Promise<readonly TerminatorRecord[]> {
    return [...this.terminators.values()]
      .filter((t) => t.routerId === routerId && t.id > afterId)
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .slice(0, limit);
  }

  async findTerminator(id: string): Promise<TerminatorRecord | undefined> {
    return this.terminators.get(id);
  }

  async createTerminator(terminator: NewTerminator): Promise<TerminatorOutcome> {
    this.#failIfToldTo();
    const id = terminator.id ?? `t${this.#nextId++}`;
    const known = this.terminators.get(id);
    if (known !== undefined) {
      const isSame =
        known.binding === terminator.binding &&
        known.serviceId === terminator.serviceId &&
        known.routerId === terminator.routerId &&
        known.hostId === terminator.hostId;
      if (!isSame) return { outcome: "conflict", message: `the id ${id} is taken` };
      const updated = {
        ...known,
        cost: terminator.cost,
        precedence: terminator.precedence,
        version: this.#nextVersion(),
      };
      this.terminators.set(id, updated);
      return { outcome: "existing", terminator: updated };
    }
    if (!this.services.has(terminator.serviceId)) return { outcome: "rejected", message: "the service is gone" };
    const created: TerminatorRecord = { ...terminator, id, createdAt: new Date(), version: this.#nextVersion() };
    this.terminators.set(id, created);
    return { outcome: "created", terminator: created };
  }

  async updateTerminator(
    id: string,
    change: { cost?: number; precedence?: PrecedenceName },
    version?: string,
  ): Promise<boolean> {
    const known = this.terminators.get(id);
    if (known === undefined || (version !== undefined && known.version !== version)) return false;
    this.terminators.set(id, { ...known, ...change, version: this.#nextVersion() });
    return true;
  }

  async hostedWithoutSession(of: readonly AccessQuestion[]): Promise<readonly TerminatorRecord[]> {
    const has = ({ hostId, serviceId }: TerminatorRecord) =>
      [...this.sessions.values()].some(
        (session) => session.type === "Bind" && session.identityId === hostId && session.serviceId === serviceId,
      );
    return [...this.terminators.values()].filter(
      (terminator) =>
        terminator.binding === "edge" &&
        of.some((each) => each.identityId === terminator.hostId && each.serviceId === terminator.serviceId) &&
        !has(terminator),
    );
  }

  async deleteTerminators(routerId: string, ids: readonly string[]): Promise<readonly string[]> {
    this.#failIfToldTo();
    const own = ids.filter((id) => this.terminators.get(id)?.routerId === routerId);
    for (const id of own) this.terminators.delete(id);
    return own;
  }

  async deleteUnchanged(
    routerId: string,
    terminators: readonly Pick<TerminatorRecord, "id" | "version">[],
  ): Promise<readonly string[]> {
    const unchanged = terminators.filter(({ id, version }) => this.terminators.get(id)?.version === version);
    const ids = unchanged.map(({ id }) => id);
    return this.deleteTerminators(routerId, ids);
  }

  async openTunnelApiSession(_routerId: string, client: TunnelClientInfo): Promise<TunnelApiSession | Denial> {
    this.tunnelClients.push(client);
    return this.tunnelSession ?? { denied: DenialCode.TunnelingNotEnabled };
  }

  async tunnelServices(_routerId: string, lastUpdate: string) {
    return this.tunnelList?.lastUpdate === lastUpdate ? undefined : this.tunnelList;
  }

  async authorizeTunnel(claim: TunnelClaim): Promise<TunnelGrant | Denial> {
    if (this.tunnelSession === undefined) return { denied: DenialCode.TunnelingNotEnabled };
    const service = await this.findService("id" in claim.service ? claim.service.id : claim.service.name);
    if (service === undefined) return { denied: DenialCode.InvalidService };
    if (this.denied.has(`${claim.routerId}/${service.id}`)) return { denied: DenialCode.AccessDenied };
    return { identityId: claim.routerId, service };
  }

  async deniedAccess(questions: readonly AccessQuestion[]): Promise<readonly AccessQuestion[]> {
    await this.beforeAccess();
    return questions.filter(({ identityId, serviceId }) => this.denied.has(`${identityId}/${serviceId}`));
  }

  async goneSessions(ids: readonly string[]): Promise<readonly string[]> {
    const known = new Set([...this.sessions.values()].map((session) => session.id));
    return ids.filter((id) => !known.has(id));
  }

  async goneApiSessions(ids: readonly string[]): Promise<readonly string[]> {
    const known = new Set([...this.accessTokens.values()].map(({ apiSessionId }) => apiSessionId));
    return ids.filter((id) => !known.has(id) && !this.apiSessions.has(id));
  }

  async identitiesRevoked(ids: readonly string[]): Promise<readonly { id: string; issuedBefore: Date }[]> {
    return ids.flatMap((id) => {
      const issuedBefore = this.revokedIdentities.get(id);
      return issuedBefore === undefined ? [] : [{ id, issuedBefore }];
    });
  }

  async openTunnelSession(request: TunnelSessionRequest): Promise<TunnelSessionGrant | Denial> {
    if (this.tunnelSession === undefined) return { denied: DenialCode.TunnelingNotEnabled };
    const service = await this.findService(request.serviceName);
    if (service === undefined) return { denied: DenialCode.InvalidService };
    const isKnown = request.apiSessionId === this.tunnelSession.id;
    return {
      kind: "session",
      identityId: request.routerId,
      sessionId: "session",
      sessionToken: "session-token",
      apiSessionId: this.tunnelSession.id,
      service,
      ...(isKnown ? {} : { newApiSession: this.tunnelSession }),
    };
  }

  #authorize(claim: SessionClaim, type: Permission): SessionGrant | Denial {
    const session = this.sessions.get(claim.sessionToken);
    if (session === undefined) return { denied: DenialCode.InvalidSession };
    if (session.type !== type) return { denied: DenialCode.WrongSessionType };
    if (session.routers !== undefined && !session.routers.includes(claim.routerId)) {
      return { denied: DenialCode.InvalidEdgeRouterForSession };
    }
    const service = this.services.get(session.serviceId);
    if (service === undefined) return { denied: DenialCode.InvalidService };
    return { kind: "session", identityId: session.identityId, sessionId: session.id, apiSessionId: "api", service };
  }

  #nextVersion(): string {
    return String(this.#nextId++);
  }

  #failIfToldTo(): void {
    const failure = this.storeFailure;
    this.storeFailure = undefined;
    if (failure !== undefined) throw failure;
  }
}
