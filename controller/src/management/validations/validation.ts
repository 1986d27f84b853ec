import { ApiError, parseListQuery } from "@sallyport/api";
import { mapLimit } from "@sallyport/async";
import { decodeControl, encodeControl, type Message, mgmtPb, ProtocolError, ValidationReply } from "@sallyport/wire";
import type { Kysely } from "kysely";
import { routerFields } from "../../api/lists/fields.ts";
import { fetchPage } from "../../store/filter/filter-sql.ts";
import type { Database } from "../../store/schema.ts";
import type { ManagementParts } from "../dependencies.ts";
import type { ManagementHandler, WebSocketChannel } from "../websocket-channel.ts";

/** Routers asked at once. */
const AT_ONCE = 10;

/** A validation that is ready to run. */
export interface Validation {
  /** How many results there will be. */
  readonly count: number;
  /** Works everything out; `report` resolves when the client can take the next result. Ends early once `isStopped`. */
  run(report: (result: Buffer) => Promise<void>, isStopped: () => boolean): Promise<void>;
}

/** Answers a request of `type` with the number of results, and sends these as they are found. */
export function validation(
  type: number,
  prepare: (message: Message) => Promise<Validation>,
): readonly [number, ManagementHandler] {
  const respond = (
    message: Message,
    channel: WebSocketChannel,
    of: { success: boolean; message?: string; count?: number },
  ) =>
    channel.reply(message, {
      contentType: type + ValidationReply.response,
      body: encodeControl(mgmtPb.ValidateResponseSchema, {
        success: of.success,
        message: of.message ?? "",
        count: BigInt(of.count ?? 0),
      }),
    });
  return [
    type,
    async (message, channel) => {
      let ready: Validation;
      try {
        ready = await prepare(message);
      } catch (error) {
        if (!(error instanceof ApiError || error instanceof ProtocolError)) throw error;
        respond(message, channel, { success: false, message: reasonOf(error) });
        return;
      }
      respond(message, channel, { success: true, count: ready.count });
      await ready.run(
        (body) => channel.deliver({ contentType: type + ValidationReply.result, body }),
        () => channel.isClosed,
      );
    },
  ];
}

function reasonOf(error: ApiError | ProtocolError): string {
  const cause =
    error instanceof ApiError ? (error.cause as { message?: unknown; reason?: unknown } | undefined) : undefined;
  const detail = cause?.message ?? cause?.reason;
  return typeof detail === "string" ? `${error.message}: ${detail}` : error.message;
}

export interface NamedRouter {
  readonly id: string;
  readonly name: string;
}

/** The routers that a filter picks, all of them without one. @throws ApiError when it is no filter */
export async function routersBy(
  db: Kysely<Database>,
  filter: string,
  onlineIds: readonly string[],
): Promise<NamedRouter[]> {
  const list = parseListQuery({ limit: "-1", ...(filter === "" ? {} : { filter }) });
  const query = db.selectFrom("router").select(["router.id", "router.name"]);
  const { rows } = await fetchPage(query, { fields: routerFields(onlineIds), list, id: "router.id" });
  return rows;
}

/** A validation of the routers that a request picks: one result for each, which `about` works out and encodes. */
export function routerValidation(
  type: number,
  { db, fabric }: Pick<ManagementParts, "db" | "fabric">,
  about: (router: NamedRouter) => Promise<Buffer>,
): readonly [number, ManagementHandler] {
  return validation(type, async (message) => {
    const { filter } = decodeControl(mgmtPb.ValidateRoutersRequestSchema, message.body);
    const routers = await routersBy(db, filter, fabric.onlineRouterIds());
    return {
      count: routers.length,
      run: (report, isStopped) => eachOf(routers, isStopped, async (router) => report(await about(router))),
    };
  });
}

/** Does `work` for every item, some at once, and begins none once `isStopped`. After an error no further item is begun, and it rejects with the error. */
export async function eachOf<T>(
  items: readonly T[],
  isStopped: () => boolean,
  work: (item: T) => Promise<void>,
): Promise<void> {
  await mapLimit(items, AT_ONCE, async (item) => {
    if (!isStopped()) await work(item);
  });
}
