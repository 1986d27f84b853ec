import type { KubeObject, ObjectRef, ResourceKind } from "../kinds.ts";

/** Of every call. */
export interface CallOptions {
  /** Ends the call; what it throws then is the signal's reason. */
  readonly signal?: AbortSignal;
  /** The whole call with its retries, milliseconds; default 30,000. */
  readonly timeoutMs?: number;
  /** Called right before the request is sent, each time that it is; what it throws ends the call. */
  readonly beforeSending?: () => void;
}

interface Selection {
  /** As kubectl takes it: `app=edge,tier in (a,b)`. */
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

export interface ListOptions extends CallOptions, Selection {
  /** Objects per page; default 500. All pages are read. */
  readonly limit?: number;
  /** `0`: the server may answer from its cache, which may be old but is cheap. Default: the newest state. */
  readonly resourceVersion?: string | undefined;
}

export interface KubeList<T> {
  readonly items: T[];
  /** Where a watch goes on from. */
  readonly resourceVersion: string;
}

export interface ApplyOptions extends CallOptions {
  /** Writes `/status`, with the manager of the status. */
  readonly status?: true;
  /** Default: the client's manager, for the status the same with `-status` behind it. */
  readonly manager?: string;
  /** Default true: a conflict with another manager is decided for us. */
  readonly force?: boolean;
  /** The server checks and answers, and keeps nothing. */
  readonly dryRun?: boolean;
}

export interface WriteOptions extends CallOptions {
  readonly status?: true;
  readonly dryRun?: boolean;
}

export interface DeleteOptions extends CallOptions {
  readonly propagation?: "Background" | "Foreground" | "Orphan";
  /** Delete only this very object: another one of the same name is a conflict. */
  readonly uid?: string | undefined;
  /** Delete only this state of the object. */
  readonly resourceVersion?: string | undefined;
}

export interface TokenOptions extends CallOptions {
  /** Whom the token is for. */
  readonly audience: string;
  /** How long it is good, seconds; servers may give less or more. */
  readonly lifetimeSeconds: number;
}

export interface WatchOptions extends Selection {
  readonly namespace?: string | undefined;
  /** Events behind this version; absent: all objects first, as ADDED. */
  readonly resourceVersion?: string;
  readonly signal?: AbortSignal;
  /** The server ends the watch after this time; default random in 300..600 s. */
  readonly timeoutSeconds?: number;
  /** The server has agreed: events come when there are any. */
  readonly onOpen?: () => void;
}

export interface WatchEvent<T = KubeObject> {
  /** Of the object of a BOOKMARK only `metadata.resourceVersion` and `metadata.annotations` mean something. */
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: T;
}

/** Fields to change: objects are merged, `null` removes, everything else replaces (RFC 7386). */
export type MergePatch = Readonly<Record<string, unknown>>;

/**
 * A Kubernetes API server (docs/operator/machinery.md, "Client"). Objects are plain JSON; nothing is added or dropped but `apiVersion` and `kind` of the items of a list, which servers leave out.
 * Every method throws {@link KubeError} for what the server refuses, and for a server that cannot be reached (`status` 0).
 */
export interface KubeClient {
  /** Undefined when there is no such object. */
  get<T extends KubeObject>(ref: ObjectRef, o?: CallOptions): Promise<T | undefined>;
  /** All objects of the kind, of one namespace or of all. */
  list<T extends KubeObject>(kind: ResourceKind, namespace?: string, o?: ListOptions): Promise<KubeList<T>>;
  /** Server-side apply: `object` is the whole of what the manager wants to own; what it wanted before and leaves out now is removed. */
  apply<T extends KubeObject>(object: KubeObject, o?: ApplyOptions): Promise<T>;
  create<T extends KubeObject>(object: KubeObject, o?: WriteOptions): Promise<T>;
  /** Replaces the whole object; with `metadata.resourceVersion` only that state of it (else 409). */
  replace<T extends KubeObject>(object: KubeObject, o?: WriteOptions): Promise<T>;
  patch<T extends KubeObject>(ref: ObjectRef, mergePatch: MergePatch, o?: WriteOptions): Promise<T>;
  /** False when there was no such object. True says that deletion began: finalizers may hold the object. */
  delete(ref: ObjectRef, o?: DeleteOptions): Promise<boolean>;
  /** A new token of a service account. It is a secret. */
  requestToken(account: { readonly namespace: string; readonly name: string }, o: TokenOptions): Promise<string>;
  /**
   * One watch request. Ends when the server ends it; throws when the stream is cut or says an error (an ERROR event becomes a {@link KubeError}).
   * Resuming is the business of a Reflector.
   */
  watch<T extends KubeObject>(kind: ResourceKind, o?: WatchOptions): AsyncIterable<WatchEvent<T>>;
}
