import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { KubeObject, ObjectRef, ResourceKind } from "../kinds.ts";
import { bodyOf, send } from "./answer.ts";
import type { Change } from "./change-history.ts";
import { FakeLists } from "./fake-lists.ts";
import { FakeStore, type Served, type Target, type Write } from "./fake-store.ts";
import { FakeWatch } from "./fake-watch.ts";
import { type Fault, type FaultRule, Faults } from "./faults.ts";
import { copy, isMap, type JsonMap } from "./json.ts";
import { metaOf } from "./object.ts";
import { matcherOf } from "./selector.ts";
import { Refusal } from "./status.ts";

export interface FakeApiServerOptions {
  /** Kinds besides those of Kubernetes; a CustomResourceDefinition that is created makes its kind known too, with defaults and pruning. */
  readonly kinds?: Iterable<ResourceKind>;
  /** PEM: serves TLS instead of plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Bearer tokens that are let in; default: all are. May be changed while the server runs. */
  readonly tokens?: Set<string>;
}

/** A request that came. */
export interface SeenRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly body: unknown;
  readonly authorization: string | undefined;
  /** Of this server's connections, counted from 1. */
  readonly connection: number;
}

/** What a path names. */
interface Place {
  readonly served: Served;
  readonly namespace?: string;
  readonly name?: string;
  readonly subresource?: string;
}

/**
 * An API server in this process, on a free port of the loopback: versions, lists in pages, watches with a history, optimistic locking,
 * `generation`, `/status`, finalizers, server-side apply, and faults. Another process reaches it by {@link url}.
 * It has no admission, no CEL, no authorization and no controllers.
 */
export class FakeApiServer {
  readonly store: FakeStore;
  readonly faults = new Faults();
  readonly requests: SeenRequest[] = [];
  readonly #http: Server;
  readonly #o: FakeApiServerOptions;
  readonly #watches = new Set<FakeWatch>();
  readonly #lists: FakeLists;
  #connections = 0;

  private constructor(o: FakeApiServerOptions) {
    this.#o = o;
    this.store = new FakeStore(o.kinds);
    this.#lists = new FakeLists(this.store);
    const handle = (request: IncomingMessage, response: ServerResponse): void => void this.#handle(request, response);
    this.#http = o.tls === undefined ? createServer(handle) : createTlsServer(o.tls, handle);
    const numbers = new WeakMap<object, number>();
    this.#http.on(o.tls === undefined ? "connection" : "secureConnection", (socket: object) => {
      this.#connections += 1;
      numbers.set(socket, this.#connections);
    });
    this.#number = (socket) => numbers.get(socket) ?? 0;
  }

  readonly #number: (socket: object) => number;

  static async start(o: FakeApiServerOptions = {}): Promise<FakeApiServer> {
    const server = new FakeApiServer(o);
    await new Promise<void>((resolve) => server.#http.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get url(): string {
    const { port } = this.#http.address() as AddressInfo;
    return `${this.#o.tls === undefined ? "http" : "https"}://127.0.0.1:${port}`;
  }

  /** A kubeconfig file's text that leads here. */
  get kubeconfig(): string {
    const named = (name: string, what: string, value: object): object => ({ name, [what]: value });
    const [token] = this.#o.tokens ?? [];
    return JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "fake",
      clusters: [named("fake", "cluster", { server: this.url, "insecure-skip-tls-verify": true })],
      users: [named("fake", "user", token === undefined ? {} : { token })],
      contexts: [named("fake", "context", { cluster: "fake", user: "fake", namespace: "default" })],
    });
  }

  /** Connections that were made so far. */
  get connections(): number {
    return this.#connections;
  }

  /** Requests that change something. */
  get writes(): readonly SeenRequest[] {
    return this.requests.filter(({ method }) => method !== "GET");
  }

  /** Watches that are open. */
  get watches(): readonly FakeWatch[] {
    return [...this.#watches].filter(({ isOver }) => !isOver);
  }

  async close(): Promise<void> {
    for (const watch of this.watches) watch.end();
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }

  /** Something goes wrong with the next request that fits; answers how to take it back. */
  inject(rule: FaultRule): () => void {
    return this.faults.add(rule);
  }

  /** Forgets the history, and the places that lists go on from: watches of old versions get 410. */
  compact(): void {
    this.store.history.compact();
    this.#lists.compact();
  }

  sendBookmarks(): void {
    for (const watch of this.watches) watch.bookmark();
  }

  cutWatches(): void {
    for (const watch of this.watches) watch.cut();
  }

  endWatches(): void {
    for (const watch of this.watches) watch.end();
  }

  /** The object as it is; undefined when there is none. */
  read<T extends KubeObject>(ref: ObjectRef): T | undefined {
    return this.store.find(this.#target(ref)) as T | undefined;
  }

  /** As another writer: puts an object there, with its status, whatever was there before. */
  put<T extends KubeObject>(kind: ResourceKind, object: object): T {
    const given = copy(object) as unknown as JsonMap;
    const { namespace, name } = metaOf(given);
    const served = this.#servedKind(kind);
    const target: Target = { served, name: String(name), ...(typeof namespace === "string" ? { namespace } : {}) };
    const write: Write = { manager: "test", operation: "Update" };
    const known = this.store.find(target);
    let result =
      known === undefined
        ? this.store.create(served, target.namespace, given, write)
        : this.store.replace(target, given, write);
    if (given.status !== undefined)
      result = this.store.patch(target, { status: given.status }, { ...write, subresource: "status" });
    return result as unknown as T;
  }

  /** As another writer: merges a patch into an object, or into its status. */
  change(ref: ObjectRef, patch: JsonMap, subresource?: "status"): void {
    const write: Write = { manager: "test", operation: "Update", ...(subresource ? { subresource } : {}) };
    this.store.patch(this.#target(ref), patch, write);
  }

  /** As another writer: deletes an object. */
  remove(ref: ObjectRef): void {
    this.store.delete(this.#target(ref));
  }

  /** Resolves with the first change from now on that fits. */
  async changed(fits: (change: Change) => boolean): Promise<Change> {
    const { promise, resolve } = Promise.withResolvers<Change>();
    const stop = this.store.history.onChange((change) => {
      if (fits(change)) resolve(change);
    });
    return await promise.finally(stop);
  }

  #target({ kind, namespace, name }: ObjectRef): Target {
    return { served: this.#servedKind(kind), name, ...(namespace === undefined ? {} : { namespace }) };
  }

  #servedKind({ group, version, plural }: ResourceKind): Served {
    const served = this.store.served(group, version, plural);
    if (served === undefined) throw new Error(`the fake API server does not serve ${group}/${version} ${plural}`);
    return served;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", url = "/" } = request;
    let body: unknown;
    try {
      body = await bodyOf(request);
    } catch {
      // The client went away in the middle of its request: no answer is awaited.
      return;
    }
    const { authorization } = request.headers;
    this.requests.push({ method, path: url, body, authorization, connection: this.#number(request.socket) });
    const fault = this.faults.next(method, url);
    try {
      if (await this.#failEarly(fault, response)) return;
      this.#authorize(authorization);
      const answer = this.#answer(method, new URL(url, "http://fake"), body, request, response, fault);
      if (answer !== undefined) await send(response, answer.code, answer.body, fault);
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal(500, "InternalError", String(error));
      await send(response, refusal.code, refusal.status, undefined, refusal.retryAfterSeconds);
    }
  }

  /** True when the fault was the whole answer. */
  async #failEarly(fault: Fault | undefined, response: ServerResponse): Promise<boolean> {
    if (fault?.kind === "status") {
      const { code, reason = "InternalError", message = "injected", retryAfterSeconds } = fault;
      const refusal = new Refusal(code, reason, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });
      await send(response, code, refusal.status, undefined, retryAfterSeconds);
      return true;
    }
    if (fault?.kind === "text") {
      response.writeHead(fault.code, { "content-type": "text/plain" }).end(fault.text);
      return true;
    }
    if (fault?.kind === "cut" && fault.lost === "request") {
      response.socket?.destroy();
      return true;
    }
    if (fault?.kind === "late") await fault.until;
    return fault?.kind === "hang";
  }

  #authorize(authorization: string | undefined): void {
    const { tokens } = this.#o;
    if (tokens === undefined || tokens.has(authorization?.replace(/^Bearer /, "") ?? "")) return;
    throw new Refusal(401, "Unauthorized", "Unauthorized");
  }

  #answer(
    method: string,
    url: URL,
    body: unknown,
    request: IncomingMessage,
    response: ServerResponse,
    fault: Fault | undefined,
  ): { code: number; body: unknown } | undefined {
    const place = this.#place(url.pathname);
    const write = writeOf(url, request);
    if (fault?.kind === "writer") this.#otherWriter(place, fault.change);
    if (place.name === undefined) {
      if (method === "GET") return this.#collection(place, url, response, fault);
      if (method === "POST")
        return { code: 201, body: this.store.create(place.served, place.namespace, mapOf(body), write) };
      throw notAllowed(method);
    }
    const target: Target = { ...place, name: place.name };
    const status: { subresource?: "status" } = place.subresource === "status" ? { subresource: "status" } : {};
    if (place.subresource !== undefined && status.subresource === undefined)
      throw new Refusal(404, "NotFound", "no such subresource");
    if (status.subresource && !place.served.shape.hasStatus)
      throw new Refusal(404, "NotFound", "the kind has no status");
    if (method === "GET") return { code: 200, body: this.store.get(target) };
    if (method === "PUT") return { code: 200, body: this.store.replace(target, mapOf(body), { ...write, ...status }) };
    if (method === "DELETE") return { code: 200, body: this.#delete(target, body) };
    if (method !== "PATCH") throw notAllowed(method);
    return this.#patch(target, url, mapOf(body), request, { ...write, ...status });
  }

  #patch(
    target: Target,
    url: URL,
    body: JsonMap,
    request: IncomingMessage,
    write: Write,
  ): { code: number; body: unknown } {
    const type = request.headers["content-type"] ?? "";
    if (type === "application/merge-patch+json") return { code: 200, body: this.store.patch(target, body, write) };
    if (type !== "application/apply-patch+yaml") {
      throw new Refusal(415, "UnsupportedMediaType", `the body of the request was in an unknown format - ${type}`);
    }
    if (!url.searchParams.has("fieldManager")) {
      throw new Refusal(
        422,
        "Invalid",
        "PatchOptions is invalid: fieldManager: Required value: is required for apply patch",
      );
    }
    const force = url.searchParams.get("force") === "true";
    const { object, isNew } = this.store.apply(target, body, { ...write, operation: "Apply" }, force);
    return { code: isNew ? 201 : 200, body: object };
  }

  #delete(target: Target, body: unknown): JsonMap {
    const given = isMap(body) && isMap(body.preconditions) ? body.preconditions : {};
    const { uid, resourceVersion } = given;
    return this.store.delete(target, {
      ...(typeof uid === "string" ? { uid } : {}),
      ...(typeof resourceVersion === "string" ? { resourceVersion } : {}),
    });
  }

  #otherWriter(place: Place, change: (object: JsonMap) => void): void {
    if (place.name === undefined) return;
    const target: Target = { ...place, name: place.name };
    const object = this.store.get(target);
    change(object);
    this.store.replace(target, object, { manager: "other", operation: "Update" });
  }

  #collection(
    place: Place,
    url: URL,
    response: ServerResponse,
    fault: Fault | undefined,
  ): { code: number; body: unknown } | undefined {
    const parameters = url.searchParams;
    const matches = matcherOf(parameters.get("labelSelector"), parameters.get("fieldSelector"));
    if (parameters.get("watch") !== "true") return { code: 200, body: this.#lists.page(place, matches, parameters) };
    const version = parameters.get("resourceVersion");
    const watch = new FakeWatch(
      this.store,
      {
        served: place.served,
        namespace: place.namespace,
        matches,
        version: version === null || version === "" || version === "0" ? undefined : Number(version),
        allowBookmarks: parameters.get("allowWatchBookmarks") === "true",
        timeoutMs: Number(parameters.get("timeoutSeconds") ?? 1800) * 1000,
        fault: fault?.kind === "stream" ? fault : undefined,
      },
      response,
    );
    this.#watches.add(watch);
    response.on("close", () => this.#watches.delete(watch));
    return undefined;
  }

  #place(path: string): Place {
    const [, root, ...rest] = path.split("/").map(decodeURIComponent);
    const [group, version, ...names] = root === "api" ? ["", ...rest] : rest;
    if ((root !== "api" && root !== "apis") || group === undefined || version === undefined) throw noPage();
    const isIn = names[0] === "namespaces" && names.length > 2 && names[2] !== "status";
    const [plural = "", name, subresource] = isIn ? names.slice(2) : names;
    const served = this.store.served(group, version, plural);
    if (served === undefined) throw noPage();
    return {
      served,
      ...(isIn && names[1] !== undefined ? { namespace: names[1] } : {}),
      ...(name === undefined ? {} : { name }),
      ...(subresource === undefined ? {} : { subresource }),
    };
  }
}

function writeOf(url: URL, request: IncomingMessage): Write {
  const manager = url.searchParams.get("fieldManager") ?? request.headers["user-agent"]?.split("/")[0] ?? "unknown";
  return { manager, operation: "Update", dryRun: url.searchParams.get("dryRun") === "All" };
}

function mapOf(body: unknown): JsonMap {
  if (isMap(body)) return body;
  throw new Refusal(400, "BadRequest", "the object provided is unrecognized (must be of type JSON object)");
}

function noPage(): Refusal {
  return new Refusal(404, "NotFound", "the server could not find the requested resource");
}

function notAllowed(method: string): Refusal {
  return new Refusal(
    405,
    "MethodNotAllowed",
    `the server does not allow this method on the requested resource: ${method}`,
  );
}
