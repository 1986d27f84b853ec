import { pause } from "@sallyport/async";
import { KINDS } from "@sallyport/resources";
import type { KubeClient } from "../kube/client/client.ts";
import { type Condition, type Health, healthOf } from "../kube/conditions.ts";
import type { KubeObject } from "../kube/kinds.ts";

export interface WaitSettings {
  /** Namespaces that are looked at; empty: all. */
  readonly namespaces: readonly string[];
  /** Only resources with these labels, as kubectl takes it. */
  readonly selector: string | undefined;
  readonly timeoutMs: number;
}

type Waited = KubeObject & {
  readonly status?: { readonly observedGeneration?: number; readonly conditions?: readonly Condition[] };
};

const INTERVAL_MS = 1_000;

/**
 * Waits until every resource of our kinds is ready, as Flux and Argo CD see it, and says of each what it waits for. Answers the exit status: 1 when the time
 * is over, or when there is no resource at all. It needs the rights to list the kinds, and no other.
 */
export async function waitForResources(
  client: Pick<KubeClient, "list">,
  { namespaces, selector, timeoutMs }: WaitSettings,
  say: (line: string) => void,
  signal: AbortSignal = AbortSignal.timeout(timeoutMs),
): Promise<number> {
  let said = "";
  let states: readonly State[] = [];
  while (!signal.aborted) {
    try {
      states = await statesOf(client, namespaces, selector, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
      break;
    }
    const awaited = states.filter(({ health }) => health !== "Current");
    if (states.length > 0 && awaited.length === 0) {
      say(`all ${states.length} resources are ready`);
      return 0;
    }
    const text = states.length === 0 ? "there is no resource yet" : awaited.map(lineOf).join("\n");
    if (text !== said) say(text);
    said = text;
    await pause(INTERVAL_MS, signal);
  }
  const behind = states.filter(({ health }) => health !== "Current").length;
  const which = states.length === 0 ? "there is no resource" : `${behind} of ${states.length} resources are not ready`;
  say(`${which}, and the time is over`);
  return 1;
}

interface State {
  readonly kind: string;
  readonly place: string;
  readonly health: Health;
  readonly message: string;
}

const lineOf = ({ kind, place, health, message }: State) => `${kind} ${place} is ${health}: ${message}`;

async function statesOf(
  client: Pick<KubeClient, "list">,
  namespaces: readonly string[],
  selector: string | undefined,
  signal: AbortSignal,
): Promise<State[]> {
  const o = { signal, labelSelector: selector };
  const places = namespaces.length === 0 ? [undefined] : namespaces;
  const lists = await Promise.all(
    KINDS.flatMap((kind) => places.map(async (place) => (await client.list<Waited>(kind, place, o)).items)),
  );
  return lists.flat().map((object) => ({
    kind: object.kind,
    place: `${object.metadata.namespace}/${object.metadata.name}`,
    ...healthOf(object),
  }));
}
