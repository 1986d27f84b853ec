import { errorText } from "@sallyport/async";
import { ControlType, ctrlPb, decodeControl, encodeControl, InspectionKey } from "@sallyport/wire";
import { RE2JS, RE2JSException } from "re2js";
import type { DynamicCosts } from "./circuits/costs.ts";
import { linkCost } from "./links/link-table.ts";
import type { Mesh } from "./links/mesh.ts";
import type { FabricOptions } from "./options.ts";
import type { IdentityConnections } from "./routers/identity-connections.ts";
import { MAX_FIELDS_OF_REPORTS } from "./routers/inbound.ts";
import type { LastSeen } from "./routers/last-seen.ts";
import type { RouterConnection } from "./routers/router-connection.ts";
import type { TerminatorValidation } from "./terminators/terminator-validation.ts";

/** What a router, or this controller, was asked and answered. */
interface InspectedValue {
  /** Id of the router or the controller. */
  readonly appId: string;
  /** As it was requested. */
  readonly name: string;
  /** JSON text, or plain text. */
  readonly value: string;
}

export interface InspectionResult {
  readonly success: boolean;
  /** Each begins with the id of the one that it is about. */
  readonly errors: readonly string[];
  readonly values: readonly InspectedValue[];
}

export interface InspectionRequest {
  /** The routers and controllers whose id it matches are asked. Syntax of RE2; matched in linear time. */
  readonly appRegex: string;
  readonly requestedValues: readonly string[];
  /** 8 s when absent. Routers that did not answer by then are errors of the result. */
  readonly timeoutMs?: number;
}

interface InspectionParts {
  /** What other parts of the controller answer, by name. */
  readonly further: Readonly<Record<string, () => unknown>>;
  readonly lastSeen: LastSeen;
  readonly controllerId: string;
  readonly mesh: Mesh;
  readonly costs: DynamicCosts;
  readonly identities: IdentityConnections;
  readonly validation: TerminatorValidation;
  readonly options: FabricOptions;
}

/** Less than an HTTP request may take. */
const TIMEOUT_MS = 8_000;
const MAX_EXPRESSION_CHARACTERS = 1_000;
const MAX_REQUESTED_VALUES = 100;
/** Of the answer of one router. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/** Asks routers and this controller about their inner state (docs/protocol/control.md, "Inspect"). */
export class Inspection {
  readonly #controllerId: string;
  readonly #mesh: Mesh;
  /** What this controller answers of itself, by name in lower case. */
  readonly #sources: ReadonlyMap<string, () => unknown>;

  constructor(parts: InspectionParts) {
    this.#controllerId = parts.controllerId;
    this.#mesh = parts.mesh;
    this.#sources = new Map(Object.entries(controllerSources(parts)));
  }

  /** Never rejects: what goes wrong is in the result. */
  async inspect(request: InspectionRequest): Promise<InspectionResult> {
    const asked = askedBy(request);
    if (typeof asked === "string") return failed(`${this.#controllerId}: ${asked}`);
    const routers = this.#mesh.routers().filter((router) => asked(router.id));
    const own = asked(this.#controllerId) ? [this.#ask(request.requestedValues)] : [];
    const timeoutMs = request.timeoutMs ?? TIMEOUT_MS;
    const answers = await Promise.all(routers.map((router) => askRouter(router, request.requestedValues, timeoutMs)));
    return joined([...own, ...answers]);
  }

  /** What this controller says of itself; nothing if it is not asked. */
  inspectSelf(request: InspectionRequest): InspectionResult {
    const asked = askedBy(request);
    const isAsked = typeof asked !== "string" && asked(this.#controllerId);
    return isAsked ? this.#ask(request.requestedValues) : joined([]);
  }

  #ask(requestedValues: readonly string[]): InspectionResult {
    const errors: string[] = [];
    const values: InspectedValue[] = [];
    for (const name of requestedValues) {
      try {
        const value = this.#value(name);
        if (value !== undefined) values.push({ appId: this.#controllerId, name, value });
      } catch (error) {
        errors.push(`${this.#controllerId}: ${name}: ${errorText(error)}`);
      }
    }
    return { success: errors.length === 0, errors, values };
  }

  #value(requested: string): string | undefined {
    const value = this.#sources.get(requested.toLowerCase())?.();
    return value === undefined || typeof value === "string" ? value : JSON.stringify(value);
  }
}

/** Whom a request means, or in words why it cannot be answered. */
export function askedBy(request: InspectionRequest): string | ((id: string) => boolean) {
  const problem = requestProblem(request);
  if (problem !== undefined) return problem;
  try {
    const expression = RE2JS.compile(request.appRegex);
    return (id) => expression.matcher(id).find();
  } catch (error) {
    if (error instanceof RE2JSException) return error.message;
    throw error;
  }
}

/** Several results as one. */
export function joined(parts: readonly InspectionResult[]): InspectionResult {
  return {
    success: parts.every((part) => part.success),
    errors: parts.flatMap((part) => part.errors),
    values: parts.flatMap((part) => part.values),
  };
}

function requestProblem({ appRegex, requestedValues }: InspectionRequest): string | undefined {
  if (appRegex.length > MAX_EXPRESSION_CHARACTERS) {
    return `the expression has ${appRegex.length} characters, at most ${MAX_EXPRESSION_CHARACTERS} are taken`;
  }
  if (requestedValues.length > MAX_REQUESTED_VALUES) {
    return `${requestedValues.length} values are requested, at most ${MAX_REQUESTED_VALUES} are answered`;
  }
  return undefined;
}

function failed(error: string): InspectionResult {
  return { success: false, errors: [error], values: [] };
}

async function askRouter(
  router: RouterConnection,
  requestedValues: readonly string[],
  timeoutMs: number,
): Promise<InspectionResult> {
  const body = encodeControl(ctrlPb.InspectRequestSchema, { requestedValues: [...requestedValues] });
  try {
    const answer = await router.channel.request({ contentType: ControlType.InspectRequest, body }, { timeoutMs });
    if (answer.body.length > MAX_ANSWER_BYTES) {
      return failed(`${router.id}: the answer has ${answer.body.length} bytes, at most ${MAX_ANSWER_BYTES} are taken`);
    }
    const { success, errors, values } = decodeControl(ctrlPb.InspectResponseSchema, answer.body, MAX_FIELDS_OF_REPORTS);
    return {
      success,
      errors: errors.map((text) => `${router.id}: ${text}`),
      values: values.map(({ name, value }) => ({ appId: router.id, name, value })),
    };
  } catch (error) {
    // The router is gone, silent, or answers what cannot be read.
    return failed(`${router.id}: ${errorText(error)}`);
  }
}

/** What operators may ask this controller about its fabric. Nothing secret. */
function controllerSources({ mesh, costs, identities, validation, options, further, lastSeen }: InspectionParts) {
  return {
    ...further,
    stackdump: processSummary,
    process: () => ({
      node: process.version,
      startedAt: new Date(Date.now() - process.uptime() * 1_000).toISOString(),
      residentBytes: process.memoryUsage.rss(),
    }),
    "routers-last-seen": () => Object.fromEntries(lastSeen.all().map(([id, at]) => [id, at.toISOString()])),
    config: () => ({ network: options }),
    "connected-routers": () =>
      mesh.routers().map(({ id, version, connectedAt }) => ({
        Id: id,
        Version: version.version,
        ConnectTime: connectedAt.toISOString(),
      })),
    [InspectionKey.Links]: () => ({
      links: mesh.links.all().map((link) => ({
        id: link.id,
        source: link.source,
        dest: link.destination,
        protocol: link.protocol,
        dialAddress: link.dialAddress,
        iteration: link.iteration,
        state: link.state,
        down: link.isDown,
        cost: linkCost(link),
        connections: link.connectionState.connections,
      })),
    }),
    "terminator-costs": () => ({ terminators: costs.all() }),
    "router-messaging": () => ({ terminatorValidations: validation.pending() }),
    [InspectionKey.IdentityConnections]: () => ({
      routers: Object.fromEntries(mesh.routers().map(({ id }) => [id, [...identities.of(id)]])),
    }),
  };
}

/** There are no threads to list: what keeps the process busy is its active resources. */
function processSummary(): string {
  const counts = Map.groupBy(process.getActiveResourcesInfo(), (resource) => resource);
  const { rss, heapUsed } = process.memoryUsage();
  return [
    `node ${process.version} pid ${process.pid} up ${Math.round(process.uptime())} s rss ${rss} heap ${heapUsed}`,
    ...[...counts].map(([name, found]) => `${name}: ${found.length}`),
  ].join("\n");
}
