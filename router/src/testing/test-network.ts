import {
  type ApiSessionRecord,
  acceptChannels,
  type Channel,
  dialChannel,
  type Identity,
  type Logger,
  type Permission,
  randomBase62Id,
  silentLogger,
  TlsPort,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import type { JWTPayload } from "jose";
import { RouterAccess } from "../access/access.ts";
import { identity, member, policy, service, TestKey, TestModel } from "../access/testing/test-model.ts";
import type { CircuitCreated, SdkCircuitRequest, ServiceCircuitRequest } from "../control/control-plane.ts";
import { EdgeCtrlError } from "../control/errors.ts";
import { type EdgeCounters, edgeCounters } from "../edge/edge-counters.ts";
import { EdgeListener } from "../edge/edge-listener.ts";
import type { EdgeOptions } from "../edge/options.ts";
import type { Fault } from "../forwarder/fault-reports.ts";
import { Forwarder } from "../forwarder/forwarder.ts";
import type { ForwarderOptions } from "../forwarder/options.ts";
import type { RouteRequest } from "../forwarder/route-processor.ts";
import { DEFAULT_EDGE_OPTIONS, DEFAULT_FORWARDER_OPTIONS } from "./default-options.ts";
import { TestControl } from "./test-control.ts";

const LINK_ALPN = "ziti-link";

interface TestTerminator {
  readonly id: string;
  readonly service: string;
  readonly routerId: string;
  readonly binding: string;
  readonly address: string;
  readonly peerData: ReadonlyMap<number, Buffer>;
}

/** An identity that logged in by OIDC. */
export interface TokenClient {
  readonly identity: Identity;
  readonly token: string;
  readonly claims: JWTPayload;
}

/** What a scripted controller knows: sessions, terminators, the path of circuits. Routers are real, in this process. */
export class TestNetwork {
  readonly authority: TestAuthority;
  readonly log: Logger;
  readonly routers = new Map<string, TestRouter>();
  readonly sessions = new Map<string, { service: string; type: Permission }>();
  readonly apiSessions = new Map<string, ApiSessionRecord>();
  readonly terminators = new Map<string, TestTerminator>();
  /** Routers between the first and the last, by default none. */
  via: string[] = [];
  /** Circuits in order of creation, with the routers of their path. */
  readonly circuits = new Map<string, string[]>();
  readonly faults: Fault[] = [];
  /** What routers know of identities and services, for SDKs with access tokens. */
  readonly model = new TestModel();
  readonly access: RouterAccess;
  /** Signs tokens. */
  readonly key = new TestKey("k1");
  #links = new Map<string, string>();

  private constructor(authority: TestAuthority, log: Logger) {
    this.authority = authority;
    this.log = log;
    this.access = new RouterAccess({ source: this.model, log });
  }

  static async create(log: Logger = silentLogger): Promise<TestNetwork> {
    const network = new TestNetwork(await TestAuthority.create(), log);
    await network.model.put(network.key.event);
    return network;
  }

  async addRouter(
    id: string,
    o: { edge?: Partial<EdgeOptions>; forwarder?: Partial<ForwarderOptions> } = {},
  ): Promise<TestRouter> {
    const router = await TestRouter.start(this, id, o);
    this.routers.set(id, router);
    return router;
  }

  /** Joins two routers by a real TLS channel. Returns both ends and the link's id. */
  async link(a: TestRouter, b: TestRouter): Promise<{ id: string; dialed: Channel; accepted: Channel }> {
    const id = randomBase62Id();
    const accepted = Promise.withResolvers<Channel>();
    const stop = acceptChannels(b.port, {
      name: `link-${id}`,
      protocols: [LINK_ALPN],
      acceptsNoAlpn: false,
      id: b.id,
      log: this.log,
      onChannel: (channel) => {
        b.forwarder.addLink({ id, channel });
        channel.onClose(() => b.forwarder.removeLink(id));
        accepted.resolve(channel);
      },
    });
    const dialed = await dialChannel({
      address: `tls:127.0.0.1:${b.port.port}`,
      identity: a.identity,
      alpn: LINK_ALPN,
      hello: { idToken: id },
      log: this.log,
    });
    a.forwarder.addLink({ id, channel: dialed });
    dialed.onClose(() => a.forwarder.removeLink(id));
    const other = await accepted.promise;
    stop();
    this.#links.set(`${a.id}>${b.id}`, id);
    this.#links.set(`${b.id}>${a.id}`, id);
    return { id, dialed, accepted: other };
  }

  /** The current link from one router to another. */
  linkBetween(a: string, b: string): string {
    const id = this.#links.get(`${a}>${b}`);
    if (id === undefined) throw new Error(`no link between ${a} and ${b}`);
    return id;
  }

  addTerminator(t: Omit<TestTerminator, "id" | "peerData">): void {
    const id = randomBase62Id();
    this.terminators.set(id, { ...t, id, peerData: new Map() });
  }

  /** An identity with an API session; its certificate may use it. */
  async client(name: string): Promise<{ identity: Identity; token: string; session: ApiSessionRecord }> {
    const identity = await this.authority.identity(name);
    const token = `api-${randomBase62Id()}`;
    const session = { id: `s-${name}-${token}`, token, identityId: name, certFingerprints: [identity.leafFingerprint] };
    this.apiSessions.set(token, session);
    return { identity, token, session };
  }

  /** The claims of an access token; the identity's certificate may use it. */
  async tokenClient(name: string, claims: JWTPayload = {}): Promise<TokenClient> {
    const certificate = await this.authority.identity(name);
    await this.model.put(identity(name));
    const now = Math.floor(Date.now() / 1000);
    const all: JWTPayload = {
      ...{ aud: ["openziti"], sub: name, jti: `j-${randomBase62Id()}`, z_asid: `s-${name}`, z_t: "a" },
      ...{ iat: now, exp: now + 600, z_cfs: [certificate.leafFingerprint], ...claims },
    };
    return { identity: certificate, claims: all, token: await this.key.sign(all) };
  }

  /** A service, and a policy by which the identities may use it. */
  async grant(serviceId: string, type: Permission, ...identityIds: string[]): Promise<string> {
    const id = `${type}-${serviceId}`;
    const members = [member(id, "identity", identityIds), member(id, "service", [serviceId])];
    await this.model.put(service(serviceId), policy(id, type), ...members);
    return id;
  }

  /** A service token of an API session, and the session that controllers know by it. */
  async serviceToken({ claims }: TokenClient, service: string, type: Permission, o: JWTPayload = {}): Promise<string> {
    const { aud, sub, z_asid, iat, exp } = claims;
    const own = { sub: service, jti: `x-${randomBase62Id()}`, z_iid: sub, z_t: "s", z_st: type, z_leg: false };
    const token = await this.key.sign({ aud, z_asid, iat, exp, ...own, ...o } as JWTPayload);
    this.sessions.set(token, { service, type });
    return token;
  }

  session(service: string, type: Permission): string {
    const token = `${type}-${randomBase62Id()}`;
    this.sessions.set(token, { service, type });
    return token;
  }

  async createCircuit(routerId: string, request: SdkCircuitRequest | ServiceCircuitRequest): Promise<CircuitCreated> {
    const service = "serviceId" in request ? request.serviceId : this.#dialled(request.sessionToken);
    const terminator = [...this.terminators.values()].find((t) => t.service === service);
    if (terminator === undefined) throw new EdgeCtrlError(1, `service ${service} has no terminators`);
    const circuitId = randomBase62Id();
    const path = routerId === terminator.routerId ? [routerId] : [routerId, ...this.via, terminator.routerId];
    const ingress = randomBase62Id();
    const egress = randomBase62Id();
    this.circuits.set(circuitId, path);
    const peerData = await this.#route(circuitId, path, ingress, egress, terminator, request.peerData);
    return {
      circuitId,
      address: ingress,
      peerData: new Map([...terminator.peerData, ...peerData]),
      tags: new Map(),
      controllerId: "ctrl",
    };
  }

  #dialled(sessionToken: string): string {
    const session = this.sessions.get(sessionToken);
    if (session === undefined) throw new EdgeCtrlError(3, "invalid session");
    if (session.type !== "Dial") throw new EdgeCtrlError(4, "incorrect session type");
    return session.service;
  }

  /** Sends the routes of a path again, as after the loss of a link. */
  async reroute(circuitId: string, ingress: string, egress: string): Promise<void> {
    const path = this.circuits.get(circuitId) as string[];
    for (const [index, id] of path.entries()) {
      const route = this.#routeFor(circuitId, path, index, ingress, egress, 99_969_996);
      await this.routers.get(id)?.forwarder.route(route, "ctrl");
    }
  }

  unroute(circuitId: string, now: boolean): void {
    for (const id of this.circuits.get(circuitId) ?? []) this.routers.get(id)?.forwarder.unroute(circuitId, now);
  }

  /** Stops the routers. @throws Error when one of them lost track of who owns a frame */
  async close(): Promise<void> {
    for (const router of this.routers.values()) await router.close();
    this.access.close();
    for (const { id, forwarder } of this.routers.values()) {
      const times = forwarder.pool.givenTwice;
      if (times > 0) throw new Error(`router ${id} gave frames back twice, ${times} times`);
      const lost = forwarder.pool.lentBytes;
      if (lost > 0) throw new Error(`router ${id} never gave frames of ${lost} bytes back`);
      const { parkedBytes, apartBytes } = forwarder.pool;
      if (parkedBytes !== 0 || apartBytes !== 0)
        throw new Error(`router ${id} counts ${parkedBytes} bytes as waiting and ${apartBytes} apart that are none`);
    }
  }

  async #route(
    circuitId: string,
    path: string[],
    ingress: string,
    egress: string,
    terminator: TestTerminator,
    peerData: ReadonlyMap<number, Buffer>,
  ): Promise<Map<number, Buffer>> {
    const answers = new Map<number, Buffer>();
    const results = path.map(async (id, index) => {
      const last = index === path.length - 1;
      const route = {
        ...this.#routeFor(circuitId, path, index, ingress, egress, 0),
        ...(last
          ? {
              egress: {
                binding: terminator.binding,
                address: egress,
                destination: terminator.address,
                peerData: Object.fromEntries(peerData),
              },
            }
          : {}),
      };
      const outcome = await (this.routers.get(id) as TestRouter).forwarder.route(route, "ctrl");
      if (!outcome.ok) throw new EdgeCtrlError(1, outcome.error ?? "route failed");
      for (const [key, value] of outcome.peerData) answers.set(key, value);
    });
    await Promise.all(results);
    return answers;
  }

  #routeFor(
    circuitId: string,
    path: string[],
    index: number,
    ingress: string,
    egress: string,
    attempt: number,
  ): RouteRequest {
    const before = index === 0 ? ingress : this.linkBetween(path[index - 1] as string, path[index] as string);
    const isLast = index === path.length - 1;
    const after = isLast ? egress : this.linkBetween(path[index] as string, path[index + 1] as string);
    return {
      circuitId,
      attempt,
      forwards: [
        { srcAddress: before, dstAddress: after, dstType: isLast ? 1 : 2 },
        { srcAddress: after, dstAddress: before, dstType: index === 0 ? 0 : 2 },
      ],
      timeout: 10_000_000_000n,
      tags: {},
    };
  }
}

/** A router without a control channel: forwarder, edge listener, and a control plane that asks the test's network. */
export class TestRouter {
  readonly id: string;
  readonly identity: Identity;
  readonly port: TlsPort;
  readonly forwarder: Forwarder;
  readonly control: TestControl;
  readonly edge: EdgeListener;
  readonly counters: EdgeCounters;

  private constructor(
    id: string,
    identity: Identity,
    port: TlsPort,
    forwarder: Forwarder,
    control: TestControl,
    edge: EdgeListener,
    counters: EdgeCounters,
  ) {
    this.id = id;
    this.identity = identity;
    this.port = port;
    this.forwarder = forwarder;
    this.control = control;
    this.edge = edge;
    this.counters = counters;
  }

  static async start(
    network: TestNetwork,
    id: string,
    o: { edge?: Partial<EdgeOptions>; forwarder?: Partial<ForwarderOptions> },
  ): Promise<TestRouter> {
    const identity = await network.authority.identity(id);
    const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, log: network.log });
    const forwarder = new Forwarder({
      routerId: id,
      log: network.log,
      options: { ...DEFAULT_FORWARDER_OPTIONS, ...o.forwarder },
    });
    const control = new TestControl(network, id);
    forwarder.onFault((fault) => control.sendFault(fault));
    forwarder.startScans();
    const counters = edgeCounters();
    const edge = new EdgeListener({
      counters,
      ports: [{ port, options: { ...DEFAULT_EDGE_OPTIONS, ...o.edge } }],
      control,
      access: network.access,
      forwarder,
      anchors: () => identity.anchors,
      log: network.log,
    });
    return new TestRouter(id, identity, port, forwarder, control, edge, counters);
  }

  async close(): Promise<void> {
    this.edge.close();
    this.forwarder.close();
    await this.port.close();
  }
}
