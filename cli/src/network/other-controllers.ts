/** The other controllers of a network, which are called while the first is away. */
import type { CommandContext } from "../context.ts";
import { visible } from "../terminal/visible.ts";
import type { ApiCaller } from "./api-caller.ts";
import { MANAGEMENT_API } from "./api-paths.ts";

/** A network with more is unusual, and each one that is away costs seconds. */
const MAX_OTHERS = 8;

/** What `GET /controllers` says of one of them, as far as it is used here. */
interface ListedController {
  readonly apiAddresses?: Readonly<Record<string, readonly { readonly url?: unknown }[] | undefined>> | null;
}

/** The controllers that the network names now beside the first; nothing when it does not say. */
export async function otherControllers(caller: ApiCaller, first: string): Promise<{ readonly others?: string[] }> {
  try {
    const { data } = await caller.json({ method: "GET", path: `${MANAGEMENT_API}/controllers` });
    const listed = Array.isArray(data) ? (data as readonly ListedController[]) : [];
    const urls = listed.flatMap(
      ({ apiAddresses }) => apiAddresses?.["edge-management"] ?? apiAddresses?.["edge-client"] ?? [],
    );
    const origins = urls.flatMap(({ url }) => originOf(url) ?? []);
    return { others: [...new Set(origins)].filter((origin) => origin !== first).slice(0, MAX_OTHERS) };
  } catch {
    return {};
  }
}

export function tellOfSwitch({ stderr }: CommandContext, former: string, next: string): void {
  stderr.write(`sallyport: warning: ${visible(former)} does not answer; ${visible(next)} is asked\n`);
}

function originOf(url: unknown): string | undefined {
  const parsed = typeof url === "string" ? URL.parse(url) : null;
  return parsed?.protocol === "https:" ? parsed.origin : undefined;
}
