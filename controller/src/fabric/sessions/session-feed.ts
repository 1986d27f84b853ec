import { isIPv6 } from "node:net";
import { BoundedMap } from "@sallyport/async";
import {
  type ApiSessionRecord,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Logger,
  type Message,
  type Outgoing,
  PROTOCOL_VERSION,
  RouterCapability,
  SYNC_STRATEGY,
} from "@sallyport/wire";
import type { Mesh } from "../links/mesh.ts";
import type { FabricOptions } from "../options.ts";
import type { FabricModel } from "../ports.ts";
import { serveNotice } from "../requests.ts";
import { onMessage } from "../routers/inbound.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import { SyncIds, SyncOverlay, syncChunks, syncStateJson } from "./session-sync.ts";

/** The router's ClientHello is asked for again when it does not come. */
const HELLO_TIMEOUT_MS = 10_000;
/** How long a chunk may wait for a router that does not read. */
const CHUNK_TIMEOUT_MS = 10_000;
/** Announced sessions that are remembered until the change about them comes in. */
const MAX_REMEMBERED = 10_000;
/** How soon a synchronisation that failed is started again. */
const RETRY_MS = 2_000;
/** Routers of OpenZiti look once a second whether a synchronisation is complete, and drop then what was not listed. */
const DROPPED_AFTER_MS = 2_000;
/** Tokens in one message. */
const TOKENS_PER_MESSAGE = 1_000;
/** Of a router's hello, which every client is shown: listeners, and characters of a protocol or host name. */
const MAX_LISTENERS = 64;
const MAX_HELLO_TEXT = 256;

interface SessionFeedParts {
  readonly mesh: Mesh;
  readonly model: Pick<
    FabricModel,
    "apiSessionsAfter" | "changesRead" | "touchApiSessions" | "unknownSessions" | "saveRouterReport"
  >;
  readonly options: Pick<FabricOptions, "announceTimeoutMs" | "now">;
  readonly log: Logger;
}

type Due = "greeting again" | "synchronising again" | "announcing again";

interface Sync {
  readonly overlay: SyncOverlay;
  isCancelled: boolean;
}

/**
 * Keeps edge routers informed of API sessions: all of them when a router has said hello or asks again, then every change. A router admits an SDK only with
 * a session it knows.
 *
 * Source: docs/protocol/fabric.md, "Session synchronisation".
 */
export class SessionFeed {
  readonly #parts: SessionFeedParts;
  readonly #ids: SyncIds;
  readonly #syncs = new Map<RouterConnection, Sync>();
  /** The synchronisation of each router that was started last; cancelled ones before it have come to their end when it has. */
  readonly #running = new WeakMap<RouterConnection, Promise<void>>();
  /** Ids of sessions that were announced here; the change about them need not be passed on. */
  readonly #announced = new BoundedMap<string, true>(MAX_REMEMBERED);
  /** What is due for each connected edge router. */
  readonly #timers = new Map<RouterConnection, Map<Due, NodeJS.Timeout>>();

  constructor(parts: SessionFeedParts) {
    this.#parts = parts;
    this.#ids = new SyncIds(parts.options.now);
  }

  attach(router: RouterConnection): void {
    if (router.record.kind !== "edge") return;
    onMessage(router, EdgeCtrlType.ClientHello, edgeCtrlPb.ClientHelloSchema, (body, message) =>
      this.#hello(router, body, message),
    );
    onMessage(router, EdgeCtrlType.RequestClientReSync, edgeCtrlPb.RequestClientReSyncSchema, (body) => {
      this.#parts.log.warn({ routerId: router.id, reason: body.reason }, "the router asks for all API sessions again");
      this.#startSync(router);
    });
    onMessage(router, EdgeCtrlType.ApiSessionHeartbeat, edgeCtrlPb.ApiSessionHeartbeatSchema, (body, message) =>
      serveNotice(router, router.orderedLane, message, () => this.#touch(router, body.tokens)),
    );
    onMessage(router, EdgeCtrlType.ValidateSessionsRequest, edgeCtrlPb.ValidateSessionsRequestSchema, (body, message) =>
      serveNotice(router, router.orderedLane, message, () => this.#validate(router, body.sessionTokens)),
    );
    this.#timers.set(router, new Map());
    router.channel.onClose(() => {
      this.#cancel(router);
      for (const timer of this.#timers.get(router)?.values() ?? []) clearTimeout(timer);
      this.#timers.delete(router);
    });
  }

  /** Runs it after `ms`, unless the router is gone by then, or the same is put off once more. */
  #later(router: RouterConnection, due: Due, ms: number, run: () => void): void {
    const timers = this.#timers.get(router);
    clearTimeout(timers?.get(due));
    timers?.set(due, setTimeout(run, ms));
  }

  /** Greets an edge router; the synchronisation starts with its answer. */
  connected(router: RouterConnection): void {
    if (router.record.kind !== "edge" || !["SYNC_NEW", "SYNC_HELLO_WAIT"].includes(router.syncStatus)) return;
    const isFirst = router.syncStatus === "SYNC_NEW";
    const body = encodeControl(edgeCtrlPb.ServerHelloSchema, {
      version: PROTOCOL_VERSION,
      data: { [SYNC_STRATEGY]: "true", routerModel: "true" },
    });
    const headers = new Headers().setBool(EdgeCtrlHeader.DataModel, true);
    if (!router.send({ contentType: EdgeCtrlType.ServerHello, headers, body })) return;
    router.syncStatus = "SYNC_HELLO_WAIT";
    const { log } = this.#parts;
    if (!isFirst) log.warn({ routerId: router.id }, "the router has not answered the hello; it was sent again");
    this.#later(router, "greeting again", HELLO_TIMEOUT_MS, () => this.connected(router));
  }

  /** Tells all edge routers of sessions; resolves when that is written, at the latest after the configured time. */
  async announce(sessions: readonly ApiSessionRecord[]): Promise<void> {
    for (const { id } of sessions) this.#announced.set(id, true);
    await this.#broadcast(sessions);
  }

  /** A session has come about, here or at another controller. */
  async added(session: ApiSessionRecord): Promise<void> {
    if (!this.#announced.delete(session.id)) await this.#broadcast([session]);
  }

  async #broadcast(sessions: readonly ApiSessionRecord[]): Promise<void> {
    if (sessions.length === 0) return;
    for (const sync of this.#syncs.values()) for (const session of sessions) sync.overlay.added(session);
    const routers = this.#sendToAll(sessionsAdded({ isFullState: false, sessions, state: "" }));
    await Promise.all(routers.map((router) => router.written(this.#parts.options.announceTimeoutMs)));
  }

  /** Sends a message to every edge router; returns those that got it. */
  #sendToAll(out: Outgoing): RouterConnection[] {
    return this.#edgeRouters().filter((router) => router.send(out));
  }

  /** A session certificate was added or removed. */
  updated(session: ApiSessionRecord): void {
    for (const sync of this.#syncs.values()) sync.overlay.updated(session);
    const headers = strategyHeaders("");
    const body = encodeControl(edgeCtrlPb.ApiSessionUpdatedSchema, { apiSessions: [sessionFields(session)] });
    this.#sendToAll({ contentType: EdgeCtrlType.ApiSessionUpdated, headers, body });
  }

  removed(id: string, token: string): void {
    // Routers were not told of it.
    if (token === "") return;
    for (const sync of this.#syncs.values()) sync.overlay.removed(id);
    this.#sendToAll(apiSessionsRemoved([token], [id]));
  }

  sessionRemoved(id: string, token: string): void {
    this.#sendToAll(sessionsRemoved([token], [id]));
  }

  /** Changes were lost: every router gets all sessions again. */
  resync(): void {
    this.#resync(() => true);
  }

  /**
   * Another controller is gone. A router of OpenZiti sends what is about an API session to the controller that announced it last, so it gets all of them from
   * this one.
   */
  takeOver(): void {
    this.#resync((router) => !router.can(RouterCapability.DataModel));
  }

  #resync(concerns: (router: RouterConnection) => boolean): void {
    for (const router of this.#edgeRouters()) {
      if (!["SYNC_NEW", "SYNC_HELLO_WAIT"].includes(router.syncStatus) && concerns(router)) this.#startSync(router);
    }
  }

  #edgeRouters(): RouterConnection[] {
    return this.#parts.mesh.routers().filter((router) => router.record.kind === "edge");
  }

  #hello(router: RouterConnection, body: edgeCtrlPb.ClientHello, message: Message): void {
    const { model } = this.#parts;
    router.supportedProtocols = protocolUrls(body);
    router.hostname = body.hostname.slice(0, MAX_HELLO_TEXT);
    router.syncStatus = "SYNC_HELLO";
    const { version, id: routerId, hostname, ctrlChanListeners } = router;
    const report = { routerId, version, hostname, ctrlChanListeners };
    serveNotice(router, router.orderedLane, message, () => model.saveRouterReport(report));
    this.#startSync(router);
  }

  #cancel(router: RouterConnection): void {
    const running = this.#syncs.get(router);
    if (running !== undefined) running.isCancelled = true;
    this.#syncs.delete(router);
  }

  #startSync(router: RouterConnection): void {
    this.#cancel(router);
    const sync: Sync = { overlay: new SyncOverlay(), isCancelled: false };
    this.#syncs.set(router, sync);
    router.syncStatus = "SYNC_IN_PROGRESS";
    // A router that asks again and again has no more than one of them working for it.
    const before = this.#running.get(router);
    const running = Promise.resolve(before).then(async () => {
      if (!sync.isCancelled) await this.#sync(router, sync);
    });
    const ended = running.catch((err: unknown) => {
      if (sync.isCancelled) return;
      this.#cancel(router);
      router.syncStatus = "SYNC_ERROR";
      this.#parts.log.error({ routerId: router.id, err }, "the API sessions could not be sent; trying again");
      // The router asks again only when it got a part of them.
      this.#later(router, "synchronising again", RETRY_MS, () => {
        if (router.syncStatus === "SYNC_ERROR") this.#startSync(router);
      });
    });
    this.#running.set(router, ended);
  }

  async #sync(router: RouterConnection, sync: Sync): Promise<void> {
    const syncId = this.#ids.next();
    let count = 0;
    const page = (afterId: string, limit: number) => this.#parts.model.apiSessionsAfter(afterId, limit);
    for await (const chunk of syncChunks(page)) {
      // What another controller has announced to the router is listed, too.
      if (chunk.isLast) await this.#parts.model.changesRead();
      if (sync.isCancelled) return;
      const sessions = sync.overlay.apply(chunk.sessions);
      if (chunk.isLast) sessions.push(...missingIn(sessions, sync.overlay.takeAdded()));
      count += sessions.length;
      router.send(sessionsAdded({ isFullState: true, sessions, state: syncStateJson(syncId, chunk) }));
      if (!chunk.isLast) await router.written(CHUNK_TIMEOUT_MS);
    }
    this.#announceAgain(router, sync);
    router.syncStatus = "SYNC_DONE";
    this.#parts.log.info({ routerId: router.id, sessions: count, syncId }, "API sessions sent");
  }

  /**
   * Announces what was added after the last chunk a second time, when the router has dropped what was not listed: two controllers may synchronise with one
   * router, and a router of OpenZiti joins a session to the synchronisation of the controller that announces it alone, and to none once either has ended.
   */
  #announceAgain(router: RouterConnection, sync: Sync): void {
    this.#later(router, "announcing again", DROPPED_AFTER_MS, () => {
      if (sync.isCancelled) return;
      this.#syncs.delete(router);
      const sessions = sync.overlay.takeAdded();
      if (sessions.length > 0) router.send(sessionsAdded({ isFullState: false, sessions, state: "" }));
    });
  }

  async #touch(router: RouterConnection, tokens: readonly string[]): Promise<void> {
    for (const some of slicesOf(tokens)) {
      const unknown = await this.#parts.model.touchApiSessions(some);
      if (unknown.length > 0) router.send(apiSessionsRemoved(unknown, []));
    }
  }

  async #validate(router: RouterConnection, tokens: readonly string[]): Promise<void> {
    for (const some of slicesOf(tokens)) {
      const unknown = await this.#parts.model.unknownSessions(some);
      if (unknown.length === 0) continue;
      // Routers of OpenZiti 2.x look at the ids only, and only when there is one for each token.
      const tokens = unknown.map(({ token }) => token);
      const ids = unknown.map(({ id, token }) => id ?? token);
      router.send(sessionsRemoved(tokens, ids));
    }
  }
}

function missingIn(listed: readonly ApiSessionRecord[], added: readonly ApiSessionRecord[]): ApiSessionRecord[] {
  const ids = new Set(listed.map(({ id }) => id));
  return added.filter(({ id }) => !ids.has(id));
}

function* slicesOf(tokens: readonly string[]): Generator<readonly string[]> {
  for (let at = 0; at < tokens.length; at += TOKENS_PER_MESSAGE) yield tokens.slice(at, at + TOKENS_PER_MESSAGE);
}

/** Protocol to URL, from each advertised listener; the last of a protocol wins. Older routers give host name, protocols and ports apart. */
export function protocolUrls(hello: edgeCtrlPb.ClientHello): Record<string, string> {
  const urls: Record<string, string> = {};
  const add = (protocol: string, host: string, port: number | string | undefined): void => {
    if (port === undefined || Object.keys(urls).length >= MAX_LISTENERS) return;
    if ([protocol, host, String(port)].some((text) => text.length > MAX_HELLO_TEXT)) return;
    // Routers give an IPv6 host with or without its brackets; in a URL it needs them.
    urls[protocol] = `${protocol}://${isIPv6(host) ? `[${host}]` : host}:${port}`;
  };
  for (const { advertise } of hello.listeners) {
    if (advertise !== undefined) add(advertise.protocol, advertise.hostname, advertise.port);
  }
  if (hello.listeners.length > 0) return urls;
  for (const [index, protocol] of hello.protocols.entries()) add(protocol, hello.hostname, hello.protocolPorts[index]);
  return urls;
}

function sessionFields({ token, certFingerprints, id, identityId }: ApiSessionRecord) {
  return { token, certFingerprints: [...certFingerprints], id, identityId };
}

function strategyHeaders(state: string): Headers {
  return new Headers()
    .setString(EdgeCtrlHeader.SyncStrategyType, SYNC_STRATEGY)
    .setString(EdgeCtrlHeader.SyncStrategyState, state);
}

export function sessionsAdded(what: {
  isFullState: boolean;
  sessions: readonly ApiSessionRecord[];
  state: string;
}): Outgoing {
  const body = encodeControl(edgeCtrlPb.ApiSessionAddedSchema, {
    isFullState: what.isFullState,
    apiSessions: what.sessions.map(sessionFields),
  });
  return { contentType: EdgeCtrlType.ApiSessionAdded, headers: strategyHeaders(what.state), body };
}

export function apiSessionsRemoved(tokens: readonly string[], ids: readonly string[]): Outgoing {
  const body = encodeControl(edgeCtrlPb.ApiSessionRemovedSchema, { tokens: [...tokens], ids: [...ids] });
  return { contentType: EdgeCtrlType.ApiSessionRemoved, body };
}

function sessionsRemoved(tokens: readonly string[], ids: readonly string[]): Outgoing {
  const body = encodeControl(edgeCtrlPb.SessionRemovedSchema, { tokens: [...tokens], ids: [...ids] });
  return { contentType: EdgeCtrlType.SessionRemoved, body };
}
