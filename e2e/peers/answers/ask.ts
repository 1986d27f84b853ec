import { Agent, request } from "node:https";
import { expect } from "vitest";
import type { Side, SideBySide } from "../../network/openziti/side-by-side.ts";

export const MANAGEMENT = "/edge/management/v1";
export const CLIENT = "/edge/client/v1";
export const FABRIC = "/fabric/v1";

/** One request. `{name}` in path, body and session stands for what an earlier step kept under that name on the same side. */
export interface Step {
  readonly method: string;
  /** Without a base path: of the Management API. */
  readonly path: string;
  readonly body?: string | Readonly<Record<string, unknown>> | readonly unknown[];
  readonly type?: string;
  /** A session kept before; the administrator's when absent; none when null. */
  readonly session?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** Keeps `data.<field>` under a name, by which later steps call it. */
  readonly keep?: Readonly<Record<string, string>>;
  /** What ours answers where it is right to differ, and why. */
  readonly ours?: { readonly status: number; readonly code?: string; readonly because: string };
}

interface Answer {
  readonly status: number;
  readonly type: string | undefined;
  readonly json: Json;
}

type Json = Readonly<Record<string, unknown>>;

/** Asks OpenZiti's controller and ours the same, and holds their answers against each other. */
export class Both {
  readonly #agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  readonly #kept = new Map<Side, Map<string, string>>();
  readonly sides: SideBySide;

  constructor(sides: SideBySide) {
    this.sides = sides;
    for (const side of [sides.theirs, sides.ours]) this.#kept.set(side, new Map());
  }

  close(): void {
    this.#agent.destroy();
  }

  /** What a step kept, on one side. */
  kept(side: "theirs" | "ours", name: string): string {
    return this.#kept.get(this.sides[side])?.get(name) ?? "";
  }

  keep(side: "theirs" | "ours", name: string, value: string): void {
    this.#kept.get(this.sides[side])?.set(name, value);
  }

  /** Asks all of it in order on both sides, and then compares, so that a failure shows every difference at once. */
  async expectSame(...steps: readonly Step[]): Promise<void> {
    const [theirs, ours] = await Promise.all([this.#all(this.sides.theirs, steps), this.#all(this.sides.ours, steps)]);
    const known = new Map<number, unknown>();
    for (const [index, { ours: own }] of steps.entries()) {
      if (own !== undefined) known.set(index, { status: own.status, ...(own.code && { code: own.code }) });
    }
    const view = (answers: readonly Answer[], other: readonly Answer[], isOurs: boolean) =>
      answers.map((answer, index) => {
        const { method, path } = steps[index] as Step;
        const expected = known.get(index);
        const label = `${index} ${method} ${path}`;
        if (expected === undefined) return { label, ...comparable(answer, other[index]?.json) };
        return { label, ...(isOurs ? { status: answer.status, ...codeOf(answer.json) } : expected) };
      });
    expect(view(ours, theirs, true)).toEqual(view(theirs, ours, false));
  }

  /** The same question to both, without a comparison. */
  async ask(step: Step): Promise<{ theirs: Answer; ours: Answer }> {
    const { theirs, ours } = this.sides;
    const [their, our] = await Promise.all([this.#ask(theirs, step), this.#ask(ours, step)]);
    return { theirs: their, ours: our };
  }

  async #all(side: Side, steps: readonly Step[]): Promise<Answer[]> {
    const answers: Answer[] = [];
    for (const step of steps) answers.push(await this.#ask(side, step));
    return answers;
  }

  async #ask(side: Side, step: Step): Promise<Answer> {
    const kept = this.#kept.get(side) ?? new Map<string, string>();
    const filled = (text: string) => text.replaceAll(/\{([a-z]\w*)\}/gi, (all, name: string) => kept.get(name) ?? all);
    const path = filled(step.path);
    const body = step.body === undefined ? undefined : filled(asText(step.body));
    const session = step.session === undefined ? side.token : step.session === null ? undefined : filled(step.session);
    const headers = {
      ...(session !== undefined && { "zt-session": session }),
      ...(body !== undefined && {
        "content-type": step.type ?? "application/json",
        "content-length": Buffer.byteLength(body),
      }),
      ...Object.fromEntries(Object.entries(step.headers ?? {}).map(([name, value]) => [name, filled(value)])),
    };
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const target = /^\/(edge|fabric|\.well-known)\//.test(path) ? path : MANAGEMENT + path;
    const o = { agent: this.#agent, host: "localhost", port: side.port, method: step.method, path: target, headers };
    const outgoing = request(o, (message) => {
      const chunks: Buffer[] = [];
      message.on("error", reject);
      message.on("data", (chunk: Buffer) => chunks.push(chunk));
      message.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        const json = (/^\s*\{/.test(text) ? JSON.parse(text) : { data: text === "" ? null : "text" }) as Json;
        resolve({ status: message.statusCode ?? 0, type: message.headers["content-type"], json });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
    const answer = await promise;
    for (const [name, field] of Object.entries(step.keep ?? {})) {
      const value = field.split(".").reduce<unknown>((at, key) => (at as Json | undefined)?.[key], answer.json.data);
      if (typeof value === "string") kept.set(name, value);
      else throw new Error(`${side.name}: ${step.method} ${path}: ${field} is no text: ${JSON.stringify(answer.json)}`);
    }
    return answer;
  }
}

function asText(body: NonNullable<Step["body"]>): string {
  return typeof body === "string" ? body : JSON.stringify(body);
}

function codeOf(json: Json): { code?: unknown } {
  const { error } = json as { error?: Json };
  return error === undefined ? {} : { code: error.code };
}

/** Status, type, error and the fields of data. Ours may tell more than OpenZiti, which is older: more fields, and causes where it has none. */
function comparable(answer: Answer, other: Json | undefined): object {
  const { status, json } = answer;
  const type = answer.type?.replace("; charset=utf-8", "");
  const { error, data, meta } = json as { error?: Json; data?: unknown; meta?: Json };
  if (error !== undefined) {
    const { field } = (error.cause ?? {}) as Json;
    const { field: theirField } = ((other?.error as Json | undefined)?.cause ?? {}) as Json;
    return { status, type, code: error.code, field: theirField === undefined ? undefined : field };
  }
  const totalOf = (of: Json | undefined) => (of?.pagination as Json | undefined)?.totalCount;
  const hasTotal = totalOf(other?.meta as Json | undefined) !== undefined;
  return { status, type, data: shape(data, other?.data), ...(hasTotal && { total: totalOf(meta) }) };
}

/** Values that each side chooses for itself: ids, times, tokens, certificates, and texts that hold them. */
const OWN = new RegExp(
  [
    "^(id|type|token|jwt|identity|apiSession|fingerprint|certPem|ipAddress|kid|role|requireExtJwtSigner|until|disabledUntil",
    "secret|provisioningUrl|recoveryCodes|verificationToken|enrollmentJwt|enrollmentToken|commonName|notAfter|notBefore",
    "version|permissions|postureQueries|edgeRouterConnectionStatus|reason|schema|_links|authenticators|publicAttributes)$",
    "(Id|At|Token)$",
  ].join("|"),
);

function shape(value: unknown, other: unknown): unknown {
  if (value === null || value === undefined || value === "") return null;
  if (typeof value === "string") return value.replace(/^edge-router-[\w.-]+-system$/, "edge-router-system");
  if (typeof value !== "object") return value;
  if (Array.isArray(value)) {
    if (value.length === 0) return null;
    if (value.every((each) => typeof each !== "object")) return value.length;
    const others = Array.isArray(other) ? other : [];
    const shapes = value.map((each, index) => shape(each, others[index] ?? others[0]));
    // Ids order what has no other order.
    return shapes.toSorted((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
  }
  const reference = (other ?? {}) as Json;
  const entries = Object.entries(value)
    .filter(([key]) => key in reference)
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([key, inner]) => [key, OWN.test(key) ? key : shape(inner, reference[key])]);
  return entries.length === 0 ? null : Object.fromEntries(entries);
}
