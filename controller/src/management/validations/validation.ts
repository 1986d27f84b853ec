import { ApiError, parseListQuery } from "@sallyport/api";
import { mapLimit } from "@sallyport/async";
import {
  ChannelClosedError,
  decodeControl,
  encodeControl,
  type Message,
  mgmtPb,
  ProtocolError,
  RequestTimeoutError,
  ValidationReply,
} from "@sallyport/wire";
import { z } from "zod";
import { routerFields } from "../../api/lists/fields.ts";
import { fetchPage } from "../../store/filter/filter-sql.ts";
import type { ManagementParts } from "../dependencies.ts";
import { inspectRouter } from "../router-requests.ts";
import type { ManagementHandler, WebSocketChannel } from "../websocket-channel.ts";

/** Routers asked at once. */
const AT_ONCE = 10;
const ANSWER_MS = 30_000;

/** A validation that is ready to run. */
interface Validation {
  /** How many results there will be. */
  readonly count: number;
  /** Works everything out; `report` resolves when the client can take the next result. Ends early once `isStopped`. */
  run(report: (result: Buffer) => Promise<void>, isStopped: () => boolean): Promise<void>;
}

/** Answers a request of `type` with the number of results, and sends these as they are found. */
export function validation(
  type: number,
  prepare: (message: Message, channel: WebSocketChannel) => Promise<Validation>,
): readonly [number, ManagementHandler] {
  const respond = (to: Message, channel: WebSocketChannel, count: number | undefined, message = "") => {
    const response = { success: count !== undefined, message, count: BigInt(count ?? 0) };
    const body = encodeControl(mgmtPb.ValidateResponseSchema, response);
    channel.reply(to, { contentType: type + ValidationReply.response, body });
  };
  return [
    type,
    async (message, channel) => {
      let ready: Validation;
      try {
        ready = await prepare(message, channel);
      } catch (error) {
        if (!(error instanceof ApiError || error instanceof ProtocolError)) throw error;
        respond(message, channel, undefined, reasonOf(error));
        return;
      }
      respond(message, channel, ready.count);
      await ready.run(
        (body) => channel.deliver({ contentType: type + ValidationReply.result, body }),
        () => channel.isClosed,
      );
    },
  ];
}

function reasonOf(error: ApiError | ProtocolError): string {
  if (!(error instanceof ApiError)) return error.message;
  const cause = error.cause as { message?: unknown; reason?: unknown } | undefined;
  const detail = cause?.message ?? cause?.reason;
  return typeof detail === "string" ? `${error.message}: ${detail}` : error.message;
}

export interface NamedRouter {
  readonly id: string;
  readonly name: string;
}

/** The routers that a filter selects; without one, all. @throws ApiError when it is no filter */
export async function routersBy(
  { db, fabric }: Pick<ManagementParts, "db" | "fabric">,
  filter: string,
): Promise<NamedRouter[]> {
  const list = parseListQuery({ limit: "-1", filter });
  const query = db.selectFrom("router").select(["router.id", "router.name"]);
  const { rows } = await fetchPage(query, { fields: routerFields(fabric.onlineRouterIds()), list, id: "router.id" });
  return rows;
}

/** A validation of the routers that a request selects: one result for each, which `about` works out and encodes. */
export function routerValidation(
  type: number,
  parts: Pick<ManagementParts, "db" | "fabric">,
  about: (router: NamedRouter) => Promise<Buffer>,
): readonly [number, ManagementHandler] {
  return validation(type, async (message) => {
    const { filter } = decodeControl(mgmtPb.ValidateRoutersRequestSchema, message.body);
    const routers = await routersBy(parts, filter);
    return {
      count: routers.length,
      run: (report, isStopped) => eachOf(routers, isStopped, async (router) => report(await about(router))),
    };
  });
}

/** Does `work` for every item, some at once, until `isStopped`. Rejects with the first error, after which it begins no further item. */
export async function eachOf<T>(
  items: readonly T[],
  isStopped: () => boolean,
  work: (item: T) => Promise<void>,
): Promise<void> {
  await mapLimit(items, AT_ONCE, async (item) => {
    if (!isStopped()) await work(item);
  });
}

type RouterAnswer<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: string };

/** What a router answers about `name`, or in words why it did not. */
export async function askRouter<T>(
  parts: Pick<ManagementParts, "fabric">,
  routerId: string,
  name: string,
  schema: z.ZodType<T>,
): Promise<RouterAnswer<T>> {
  if (!parts.fabric.onlineRouterIds().includes(routerId)) return problem("router is not connected");
  try {
    const text = await inspectRouter(parts, routerId, name, ANSWER_MS);
    if (text === undefined) return problem(`router does not answer what it knows of ${name}`);
    const parsed = schema.safeParse(JSON.parse(text));
    if (parsed.success) return { ok: true, value: parsed.data };
    return problem(`router's answer on ${name} cannot be used: ${z.prettifyError(parsed.error)}`);
  } catch (error) {
    return problem(whyUnanswered(error, `answer on ${name}`));
  }
}

/** Why a router gave no answer that can be used. Throws every error that is not about the router again. */
export function whyUnanswered(error: unknown, what = "answer"): string {
  if (error instanceof RequestTimeoutError) return "router does not answer";
  if (error instanceof ChannelClosedError) return "router disconnected";
  if (error instanceof ProtocolError || error instanceof SyntaxError) {
    return `router's ${what} cannot be read: ${error.message}`;
  }
  throw error;
}

function problem(text: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem: text };
}
