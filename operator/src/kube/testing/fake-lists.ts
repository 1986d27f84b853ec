import { apiVersionOf, keyFor } from "../kinds.ts";
import type { FakeStore, Served } from "./fake-store.ts";
import type { JsonMap } from "./json.ts";
import type { Matcher } from "./selector.ts";
import { expired } from "./status.ts";

/** Lists of a fake API server, whole or in pages of one moment. */
export class FakeLists {
  readonly #store: FakeStore;
  readonly #rests = new Map<string, { readonly objects: JsonMap[]; readonly version: number }>();

  constructor(store: FakeStore) {
    this.#store = store;
  }

  /** Forgets where lists go on from. */
  compact(): void {
    this.#rests.clear();
  }

  page(
    { served, namespace }: { readonly served: Served; readonly namespace?: string },
    matches: Matcher,
    parameters: URLSearchParams,
  ): JsonMap {
    const limit = Number(parameters.get("limit") ?? 0);
    const token = parameters.get("continue");
    const known = token === null ? undefined : this.#rests.get(token);
    if (token !== null && known === undefined) {
      throw expired("The provided continue parameter is too old to display a consistent list result.");
    }
    const version = known?.version ?? this.#store.history.version;
    const objects = known?.objects ?? this.#store.list(served, namespace).filter(matches);
    const page = limit > 0 ? objects.slice(0, limit) : objects;
    const rest = objects.slice(page.length);
    const { kind } = served;
    const next = rest.length === 0 ? "" : `${version}.${this.#rests.size}.${keyFor(namespace, kind.plural)}`;
    if (next !== "") this.#rests.set(next, { objects: rest, version });
    // Servers leave what all items have in common out of the items of their own kinds.
    const isOwn = !kind.group.includes(".") || kind.group.endsWith(".k8s.io");
    return {
      kind: `${kind.kind}List`,
      apiVersion: apiVersionOf(kind),
      metadata: {
        resourceVersion: String(version),
        ...(next === "" ? {} : { continue: next, remainingItemCount: rest.length }),
      },
      items: page.map(({ apiVersion = "", kind: name = "", ...rest }) =>
        isOwn ? rest : { apiVersion, kind: name, ...rest },
      ),
    };
  }
}
