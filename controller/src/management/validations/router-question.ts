import { ChannelClosedError, ProtocolError, RequestTimeoutError } from "@sallyport/wire";
import { z } from "zod";
import type { ManagementParts } from "../dependencies.ts";
import { inspectRouter } from "../router-requests.ts";

const ANSWER_MS = 30_000;

export type RouterAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string };

/** What a router says about `name`, or in words why that is not known. Never rejects. */
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
    if (error instanceof RequestTimeoutError) return problem("router does not answer");
    if (error instanceof ChannelClosedError) return problem("router disconnected");
    if (error instanceof ProtocolError || error instanceof SyntaxError) {
      return problem(`router's answer on ${name} cannot be read: ${error.message}`);
    }
    throw error;
  }
}

function problem(text: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem: text };
}
