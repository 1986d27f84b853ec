/** Requests to leave HTTP for another protocol on the same connection. Only administrators get that far. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { ApiError, apiError, unauthorized } from "@sallyport/api";
import { bareResponse, failure, newRequestId } from "./answer.ts";
import { refusedAs } from "./challenges.ts";
import { type ApiSessionContext, callerOf } from "./context.ts";
import type { ServerContext } from "./reply.ts";
import { remoteAddressOf, requestInfo, resolvePath } from "./request.ts";

/** The caller of an upgraded connection. */
export interface UpgradedBy {
  readonly session: ApiSessionContext;
  readonly remoteAddress: string;
  /**
   * Checks again: false once the session has ended or the identity is no administrator. An access token that has ended does not end the connection while
   * the session has a newer one. Counts as use of the session.
   */
  isStillAllowed(): Promise<boolean>;
  /** Does work of a request that came over the connection. Before its answer may go out, the other controllers know what it has written: this waits for them. */
  within<T>(work: () => Promise<T>): Promise<T>;
}

/** Something that takes over connections asked for under one path. */
export interface Upgrade {
  /** The whole path, without the query. */
  readonly path: string;
  /** Answers the request, and owns the connection from then on. Must not throw. */
  accept(message: IncomingMessage, socket: Duplex, head: Buffer, by: UpgradedBy): void;
}

/** From the call of `accept` on, the limits of the HTTP server no longer hold for the connection. */
export async function upgrade(
  context: ServerContext,
  upgrades: readonly Upgrade[],
  message: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const requestId = newRequestId();
  socket.on("error", () => socket.destroy());
  const target = upgradeFor(upgrades, message);
  if (target === undefined) {
    socket.destroy();
    return;
  }
  const abort = new AbortController();
  socket.once("close", () => abort.abort());
  const { signal } = abort;
  const info = requestInfo(message, { id: requestId, api: "fabric", operation: {}, path: target.path, signal });
  const find = async (again?: ApiSessionContext): Promise<ApiSessionContext> => {
    const session = await context.authenticate(info, again);
    if ("refused" in session) throw refusedAs(session);
    if (!session.isFullyAuthenticated) throw unauthorized("a secondary factor is open");
    if (!session.isAdmin) throw unauthorized("not an administrator");
    return session;
  };
  try {
    const session = await find();
    const caller = callerOf(info.remoteIp, session);
    context.connections.usedBy(message.socket, caller);
    if (socket.destroyed) return;
    target.accept(message, socket, head, {
      session,
      remoteAddress: remoteAddressOf(message),
      isStillAllowed: async () => {
        try {
          await find(session);
          return true;
        } catch (error) {
          // An outage of the database does not end the session.
          return !(error instanceof ApiError && error.status === 401);
        }
      },
      within: (work) => context.within({ signal, caller }, work),
    });
  } catch (error) {
    refuse(context, socket, requestId, remoteAddressOf(message), error);
  }
}

export function upgradeFor(upgrades: readonly Upgrade[], message: IncomingMessage): Upgrade | undefined {
  const path = resolvePath(message.url ?? "").split("?", 1)[0];
  return upgrades.find((candidate) => candidate.path === path);
}

function refuse(context: ServerContext, socket: Duplex, requestId: string, peer: string, error: unknown): void {
  const known = error instanceof ApiError ? error : (context.translate(error)?.shown ?? apiError("UNHANDLED"));
  context.failures.withoutSession[known.status >= 500 ? "error" : "info"](
    { requestId, peer, status: known.status, code: known.code, ...(known.status >= 500 && { err: error }) },
    "a connection was not upgraded",
  );
  const answer = failure(known, requestId, "fabric");
  const headers = { ...context.commonHeaders, ...answer.headers, connection: "close" };
  const reason = known.status === 401 ? "Unauthorized" : "Error";
  socket.end(bareResponse({ ...answer, headers }, reason));
  socket.once("finish", () => socket.destroy());
}
