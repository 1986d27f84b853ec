/** What the cluster itself asks of its API server: objects as JSON over one connection pool, as its admin. */

import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "@sallyport/async";

export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

export interface KubeList<T> {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly T[];
}

export interface Credentials {
  /** `https://…` */
  readonly server: string;
  readonly ca: string;
  readonly certPem: string;
  readonly keyPem: string;
}

export class KubeApiError extends Error {
  readonly status: number;

  constructor(what: string, status: number, answer: string) {
    super(`${what} was answered with ${status}: ${answer}`);
    this.name = "KubeApiError";
    this.status = status;
  }
}

interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: Readonly<Record<string, string>> }[];
  readonly users: readonly { readonly user: Readonly<Record<string, string>> }[];
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of answer.setEncoding("utf8")) text += piece;
  return text;
}

export class KubeApi {
  readonly #server: string;
  readonly #agent: Agent;

  constructor({ server, ca, certPem, keyPem }: Credentials) {
    this.#server = server;
    this.#agent = new Agent({ keepAlive: true, ca, cert: certPem, key: keyPem });
  }

  /** The admin of a cluster, by the kubeconfig that the cluster wrote. */
  static fromKubeconfig(file: string): KubeApi {
    const { clusters, users } = JSON.parse(readFileSync(file, "utf8")) as Kubeconfig;
    const [{ cluster } = { cluster: {} }] = clusters;
    const [{ user } = { user: {} }] = users;
    const text = (base64: string | undefined): string => Buffer.from(base64 ?? "", "base64").toString();
    return new KubeApi({
      server: cluster.server ?? "",
      ca: text(cluster["certificate-authority-data"]),
      certPem: text(user["client-certificate-data"]),
      keyPem: text(user["client-key-data"]),
    });
  }

  async get<T>(path: string): Promise<T> {
    return JSON.parse(await this.#text("GET", path)) as T;
  }

  /** Resolves with what is there afterwards; what exists already is left as it is. */
  async create(path: string, object: KubeObject): Promise<void> {
    await this.#text("POST", path, object).catch((error: unknown) => {
      if (!(error instanceof KubeApiError) || error.status !== 409) throw error;
    });
  }

  /** Puts an object in the place of the one that it was made from, of the same version. */
  async replace(path: string, object: object): Promise<void> {
    await this.#text("PUT", path, object);
  }

  async delete(path: string): Promise<void> {
    await this.#text("DELETE", path).catch((error: unknown) => {
      if (!(error instanceof KubeApiError) || error.status !== 404) throw error;
    });
  }

  /** Any request, resolving with the answer whatever it is. */
  async call<T>(method: string, path: string, body?: object): Promise<{ readonly status: number; readonly body: T }> {
    const answer = await this.#send(method, path, body);
    return { status: answer.statusCode ?? 0, body: JSON.parse(await textOf(answer)) as T };
  }

  /** Asks again and again until the answer is as wanted; an API server that does not answer yet is waited for. */
  async until(what: string, timeoutMs: number, isSo: (api: KubeApi) => Promise<boolean>): Promise<void> {
    const end = performance.now() + timeoutMs;
    let last: unknown = "it was not so";
    while (performance.now() < end) {
      try {
        if (await isSo(this)) return;
      } catch (error) {
        last = errorText(error);
      }
      await delay(50);
    }
    throw new Error(`not within ${timeoutMs} ms: ${what} (last: ${String(last)})`);
  }

  /** The raw answer, such as "ok" of /readyz. */
  async text(path: string): Promise<string> {
    return await this.#text("GET", path);
  }

  /** Resolves at the next change of a collection after a version, or when the API server ends the watch. */
  async nextChange(path: string, resourceVersion: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#send("GET", `${path}?watch=1&resourceVersion=${resourceVersion}`, undefined, signal);
    // It is cut off in the middle.
    answer.on("error", () => {});
    for await (const line of createInterface({ input: answer })) {
      if (line !== "") break;
    }
    answer.destroy();
  }

  close(): void {
    this.#agent.destroy();
  }

  async #text(method: string, path: string, body?: object): Promise<string> {
    const answer = await this.#send(method, path, body);
    const text = await textOf(answer);
    const status = answer.statusCode ?? 0;
    if (status >= 300) throw new KubeApiError(`${method} ${path}`, status, text);
    return text;
  }

  async #send(method: string, path: string, body?: object, signal?: AbortSignal): Promise<IncomingMessage> {
    return await new Promise((resolve, reject) => {
      const sent = request(`${this.#server}${path}`, {
        method,
        agent: this.#agent,
        headers: { "content-type": "application/json" },
        ...(signal !== undefined && { signal }),
      });
      sent.once("response", resolve).once("error", reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}
