import type { ServerResponse } from "node:http";
import type { ResourceKind } from "../kinds.ts";
import type { Change } from "./change-history.ts";
import type { FakeStore, Served } from "./fake-store.ts";
import type { Fault } from "./faults.ts";
import type { JsonMap } from "./json.ts";
import { metaOf } from "./object.ts";
import type { Matcher } from "./selector.ts";
import { expired, Refusal } from "./status.ts";

export interface WatchRequest {
  readonly served: Served;
  readonly namespace: string | undefined;
  readonly matches: Matcher;
  /** Absent: everything first. */
  readonly version: number | undefined;
  readonly allowBookmarks: boolean;
  readonly timeoutMs: number;
  readonly fault: (Fault & { kind: "stream" }) | undefined;
}

/** One open watch. */
export class FakeWatch {
  readonly kind: ResourceKind;
  readonly namespace: string | undefined;
  readonly #store: FakeStore;
  readonly #request: WatchRequest;
  readonly #response: ServerResponse;
  readonly #timer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  #sent = 0;
  #isOver = false;

  constructor(store: FakeStore, request: WatchRequest, response: ServerResponse) {
    this.#store = store;
    this.#request = request;
    this.#response = response;
    this.kind = request.served.kind;
    this.namespace = request.namespace;
    this.#timer = setTimeout(() => this.end(), request.timeoutMs);
    this.#unsubscribe = store.history.onChange((change) => this.#take(change));
    response.on("close", () => this.#stop());
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    this.#begin();
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** A bookmark with the version of now. */
  bookmark(annotations?: JsonMap): void {
    if (!this.#request.allowBookmarks) return;
    const { kind } = this.#request.served;
    const metadata: JsonMap = {
      resourceVersion: String(this.#store.history.version),
      ...(annotations ? { annotations } : {}),
    };
    this.#send("BOOKMARK", {
      apiVersion: kind.group ? `${kind.group}/${kind.version}` : kind.version,
      kind: kind.kind,
      metadata,
    });
  }

  /** Ends as a server does when its time is over. */
  end(): void {
    if (this.#isOver) return;
    this.#stop();
    this.#response.end();
  }

  /** Breaks the connection. */
  cut(): void {
    this.#stop();
    this.#response.socket?.destroy();
  }

  #stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#unsubscribe();
  }

  #begin(): void {
    const { version, served, namespace, matches } = this.#request;
    if (this.#isDue()) return;
    if (version === undefined) {
      for (const object of this.#store.list(served, namespace)) if (matches(object)) this.#send("ADDED", object);
      return;
    }
    const changes = this.#store.history.since(version);
    if (changes === undefined) {
      this.#send(
        "ERROR",
        expired(`too old resource version: ${version} (${this.#store.history.compacted})`).status as JsonMap,
      );
      this.end();
      return;
    }
    for (const change of changes) this.#take(change);
  }

  #take({ kind, type, object, previous }: Change): void {
    const { served, namespace, matches } = this.#request;
    if (kind.plural !== served.kind.plural || kind.group !== served.kind.group) return;
    if (namespace !== undefined && metaOf(object).namespace !== namespace) return;
    const is = type !== "DELETED" && matches(object);
    const was = previous !== undefined && matches(previous);
    if (is) this.#send(was ? "MODIFIED" : "ADDED", object);
    else if (was)
      this.#send("DELETED", {
        ...previous,
        metadata: { ...metaOf(previous), resourceVersion: metaOf(object).resourceVersion ?? "" },
      });
  }

  #send(type: string, object: JsonMap): void {
    if (this.#isOver) return;
    this.#response.write(`${JSON.stringify({ type, object })}\n`);
    this.#sent += 1;
    this.#isDue();
  }

  /** Does what goes wrong, when it is time; true when the watch is over. */
  #isDue(): boolean {
    const { fault } = this.#request;
    if (fault === undefined || this.#isOver || this.#sent < fault.afterEvents) return this.#isOver;
    if (fault.ends === "end") this.end();
    else if (fault.ends === "cut") this.#flushThenCut("");
    else if (fault.ends === "half-line") this.#flushThenCut('{"type":"ADDED","object":{"apiVer', true);
    else if (fault.ends === "bad-line") this.#flushThenCut("{type: no JSON}\n", true);
    else if (fault.ends === "odd-event") this.#flushThenCut('{"type":"RENAMED","object":{"metadata":{}}}\n', true);
    else {
      const { code, reason, retryAfterSeconds } = fault.ends;
      const refusal = new Refusal(
        code,
        reason,
        `the watch failed: ${reason}`,
        retryAfterSeconds === undefined ? {} : { retryAfterSeconds },
      );
      this.#response.write(`${JSON.stringify({ type: "ERROR", object: refusal.status })}\n`);
      this.end();
    }
    return true;
  }

  #flushThenCut(text: string, endsWell = false): void {
    this.#stop();
    if (endsWell) this.#response.end(text);
    else this.#response.write(text || "\n", () => this.#response.socket?.destroy());
  }
}
