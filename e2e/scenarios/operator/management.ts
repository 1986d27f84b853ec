/** The Management API of a managed Network, asked from within its controller's pod: that can be done in every cluster. */
import { ENTITY_PATHS } from "../../operator/entity-paths.ts";
import type { Stage } from "../stage.ts";

export interface Call {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Behind `/edge/management/v1`. */
  readonly path: string;
  readonly body?: object;
}

export interface Entity {
  readonly id: string;
  readonly name: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
}

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: what is asked for decides
  readonly data: any;
}

interface AdminSecret {
  readonly data: { readonly username: string; readonly password: string };
}

/** Runs in the pod. Logs in, makes the calls one after the other, prints their answers. */
const SCRIPT = `
const { request } = require("node:https");
const ask = (token, { method, path, body }) => new Promise((resolve, reject) => {
  const headers = { "content-type": "application/json", ...(token && { "zt-session": token }) };
  const at = { host: "127.0.0.1", port: 1280, rejectUnauthorized: false, timeout: 20000 };
  const sent = request({ ...at, method, headers, path: "/edge/management/v1" + path }, (answer) => {
    let text = "";
    answer.setEncoding("utf8").on("data", (part) => { text += part; });
    answer.on("end", () => resolve({ status: answer.statusCode, data: JSON.parse(text || "{}").data }));
  });
  sent.on("error", reject).on("timeout", () => sent.destroy(new Error("no answer")));
  sent.end(body && JSON.stringify(body));
});
void (async () => {
  const { data } = await ask(undefined, { method: "POST", path: "/authenticate?method=password", body: CREDENTIALS });
  const answers = [];
  for (const call of CALLS) answers.push(await ask(data.token, call));
  console.log(JSON.stringify(answers));
})();`;

export class Management {
  readonly #stage: Stage;
  readonly #network: string;
  #credentials: string | undefined;

  constructor(stage: Stage, network = "main") {
    this.#stage = stage;
    this.#network = network;
  }

  /** The answers to calls, in order. */
  async ask(...calls: readonly Call[]): Promise<Answer[]> {
    this.#credentials ??= await this.#admin();
    const script = SCRIPT.replace("CREDENTIALS", () => this.#credentials ?? "").replace("CALLS", () =>
      JSON.stringify(calls),
    );
    const printed = await this.#stage.node(`${this.#network}-controller-0`, "controller", script);
    const answers = JSON.parse(printed) as Answer[];
    for (const [i, { status }] of answers.entries())
      if (status >= 500) throw new Error(`${calls[i]?.method} ${calls[i]?.path} was answered with ${status}`);
    return answers;
  }

  /** All entities of the stage's resources, by the tags that tell whose they are; of every kind. */
  async owned(): Promise<(Entity & { readonly kind: string })[]> {
    const filter = encodeURIComponent(`tags.sallyport-namespace = "${this.#stage.namespace}" limit 500`);
    const kinds = Object.entries(ENTITY_PATHS);
    const answers = await this.ask(
      ...kinds.map(([, path]) => ({ method: "GET", path: `/${path}?filter=${filter}` }) as const),
    );
    // The operator's own administrator of the network is an identity, too, and the Network's.
    return answers.flatMap(({ data }, i) => {
      const kind = kinds[i]?.[0] ?? "";
      return (data as Entity[])
        .filter(({ tags }) => tags["sallyport-kind"] === kind)
        .map((each) => ({ ...each, kind }));
    });
  }

  async #admin(): Promise<string> {
    const { data } = await this.#stage.get<AdminSecret>("secret", `${this.#network}-admin`);
    const text = (value: string) => Buffer.from(value, "base64").toString();
    return JSON.stringify({ username: text(data.username), password: text(data.password) });
  }
}
