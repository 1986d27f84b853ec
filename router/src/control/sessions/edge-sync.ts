import {
  type ApiSessionRecord,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  formatAddress,
  Headers,
  type Logger,
  type Message,
  PROTOCOL_VERSION,
  SYNC_STRATEGY,
} from "@sallyport/wire";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { Controllers } from "../controllers/controllers.ts";
import type { KnownApiSessions } from "./api-sessions.ts";
import { SessionSync, type SyncState } from "./session-sync.ts";

/** Where SDKs reach this router, for the controller's answers to them. */
export interface EdgeAddress {
  readonly protocol: string;
  readonly listenHost: string;
  readonly listenPort: number;
  readonly advertiseHost: string;
  readonly advertisePort: number;
}

export interface EdgeSyncOptions {
  readonly controllers: Controllers;
  readonly apiSessions: KnownApiSessions;
  /** Read at every hello: ports may have been chosen by the system. */
  readonly addresses: () => readonly EdgeAddress[];
  /** Whether this router subscribes to the data model. */
  readonly followsDataModel: () => boolean;
  readonly onSessionsRemoved: (tokens: readonly string[]) => void;
  readonly log: Logger;
}

const LOOK_MS = 1000;

/**
 * The edge side of a control channel: introduces the router (ServerHello, ClientHello) and keeps the table of API
 * sessions what the controllers say it is (docs/protocol/control.md, "Edge hello" and "API sessions").
 */
export class EdgeSync {
  readonly #o: EdgeSyncOptions;
  readonly #syncs = new Map<string, SessionSync>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: EdgeSyncOptions) {
    this.#o = options;
    const { controllers } = options;
    controllers.handle(EdgeCtrlType.ServerHello, (message, controller) => this.#hello(message, controller));
    controllers.handle(EdgeCtrlType.ApiSessionAdded, (message, controller) => this.#added(message, controller));
    controllers.handle(EdgeCtrlType.ApiSessionUpdated, (message) => this.#updated(message));
    controllers.handle(EdgeCtrlType.ApiSessionRemoved, (message) => {
      const { tokens } = decodeControl(edgeCtrlPb.ApiSessionRemovedSchema, message.body);
      // Tokens that are JWTs are not in the table: a controller calls them unknown, and they stay valid by themselves.
      options.apiSessions.remove(tokens);
    });
    controllers.handle(EdgeCtrlType.SessionRemoved, (message) => {
      const { tokens, ids } = decodeControl(edgeCtrlPb.SessionRemovedSchema, message.body);
      // A service token may have been signed again since: then only the id names the session.
      options.onSessionsRemoved(ids.length === tokens.length ? [...new Set([...tokens, ...ids])] : tokens);
    });
    controllers.onDisconnected((controller) => this.#syncs.get(controller.id)?.abandon());
    this.#timer = setInterval(() => this.#expire(), LOOK_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #hello(message: Message, controller: ControllerConnection): void {
    const addresses = this.#o.addresses();
    const body = encodeControl(edgeCtrlPb.ClientHelloSchema, {
      version: PROTOCOL_VERSION,
      hostname: addresses[0]?.advertiseHost ?? "",
      protocols: addresses.map((a) => a.protocol),
      protocolPorts: addresses.map((a) => String(a.advertisePort)),
      listeners: addresses.map((a) => ({
        address: wireAddress(a.protocol, a.listenHost, a.listenPort),
        advertise: wireAddress(a.protocol, a.advertiseHost, a.advertisePort),
      })),
    });
    // Without the header some controllers send states, but no changes.
    const headers = new Headers();
    if (this.#o.followsDataModel()) headers.setBool(EdgeCtrlHeader.DataModel, true);
    controller.channel.reply(message, { contentType: EdgeCtrlType.ClientHello, headers, body });
  }

  #added(message: Message, controller: ControllerConnection): void {
    const body = decodeControl(edgeCtrlPb.ApiSessionAddedSchema, message.body);
    const sessions = body.apiSessions.map(recordOf);
    const sync = this.#syncOf(controller);
    for (const other of this.#syncs.values()) if (other !== sync) other.join(sessions);
    const state = readState(message.headers.getString(EdgeCtrlHeader.SyncStrategyState));
    if (!body.isFullState) {
      sync.added(sessions);
    } else if (message.headers.getString(EdgeCtrlHeader.SyncStrategyType) !== SYNC_STRATEGY) {
      sync.replaceAll(sessions);
    } else if (state === undefined) {
      const text = "API sessions came with an unreadable synchronisation state; they are added, nothing is removed";
      this.#o.log.warn({ controllerId: controller.id }, text);
      sync.added(sessions);
    } else if (sync.chunk(state, sessions, performance.now())) {
      const fields = { controllerId: controller.id, apiSessions: this.#o.apiSessions.size };
      this.#o.log.info(fields, "API sessions are synchronised");
    }
  }

  #updated(message: Message): void {
    const { apiSessions } = decodeControl(edgeCtrlPb.ApiSessionUpdatedSchema, message.body);
    this.#o.apiSessions.add(apiSessions.map(recordOf));
  }

  #syncOf(controller: ControllerConnection): SessionSync {
    const known = this.#syncs.get(controller.id) ?? new SessionSync(this.#o.apiSessions);
    this.#syncs.set(controller.id, known);
    return known;
  }

  #expire(): void {
    for (const [controllerId, sync] of this.#syncs) {
      if (!sync.expire(performance.now())) continue;
      const reason = "the synchronisation did not complete in time";
      this.#o.log.warn({ controllerId }, `${reason}; asking for another`);
      const body = encodeControl(edgeCtrlPb.RequestClientReSyncSchema, { reason });
      this.#o.controllers.sendTo(controllerId, { contentType: EdgeCtrlType.RequestClientReSync, body });
    }
  }
}

function wireAddress(protocol: string, hostname: string, port: number) {
  return { value: formatAddress({ protocol, host: hostname, port }), protocol, hostname, port };
}

function recordOf({ id, token, identityId, certFingerprints }: edgeCtrlPb.ApiSession): ApiSessionRecord {
  return { id, token, identityId, certFingerprints };
}

function readState(text: string | undefined): SyncState | undefined {
  try {
    const value: unknown = JSON.parse(text ?? "");
    if (typeof value !== "object" || value === null) return undefined;
    const { id, sequence, isLast } = value as Record<string, unknown>;
    if (typeof id !== "string" || id === "" || !Number.isSafeInteger(sequence) || Number(sequence) < 0)
      return undefined;
    return { id, sequence: Number(sequence), isLast: isLast === true };
  } catch {
    return undefined;
  }
}
