import { Agent, request } from "node:https";
import { text } from "node:stream/consumers";

/** A question that was not answered by then has an unknown outcome. */
const ANSWER_MS = 20_000;

export interface CallOptions {
  /** Of a session without OIDC. */
  readonly token?: string;
  /** An access token. */
  readonly bearer?: string;
  readonly body?: unknown;
  readonly form?: Readonly<Record<string, string>>;
}

/** What a replica answered; status 0: no answer came. Times of the steady clock. */
export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every kind
  readonly json: any;
  readonly location: string;
  readonly began: number;
  readonly ended: number;
  /** For reports. */
  readonly by: string;
}

/** Asks any of several controllers. */
export class Asker {
  readonly #agent = new Agent({ keepAlive: true, rejectUnauthorized: false });

  /** Never rejects. */
  async call(
    { id, apiPort }: { readonly id: string; readonly apiPort: number },
    method: string,
    path: string,
    options: CallOptions = {},
  ): Promise<Answer> {
    const began = performance.now();
    const by = `${method} ${path.split("?")[0]} at ${id}`;
    try {
      const answer = await send(this.#agent, apiPort, { method, path, ...options });
      return { ...answer, began, ended: performance.now(), by };
    } catch (error) {
      return { status: 0, json: { error: String(error) }, location: "", began, ended: performance.now(), by };
    }
  }

  close(): void {
    this.#agent.destroy();
  }
}

async function send(
  agent: Agent,
  port: number,
  { method, path, token, bearer, body, form }: CallOptions & { readonly method: string; readonly path: string },
): Promise<Pick<Answer, "status" | "json" | "location">> {
  const content = form === undefined ? body && JSON.stringify(body) : new URLSearchParams(form).toString();
  const headers = {
    accept: "application/json",
    ...(content !== undefined && {
      "content-type": form === undefined ? "application/json" : "application/x-www-form-urlencoded",
    }),
    ...(token !== undefined && { "zt-session": token }),
    ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
  };
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(ANSWER_MS);
    const sent = request({ agent, host: "localhost", port, method, path, headers, signal }, (response) => {
      text(response).then((answer) => {
        const isJson = String(response.headers["content-type"]).includes("json");
        const json = isJson ? JSON.parse(answer) : answer;
        resolve({ status: response.statusCode ?? 0, json, location: response.headers.location ?? "" });
      }, reject);
    });
    sent.once("error", reject);
    sent.end(content);
  });
}
