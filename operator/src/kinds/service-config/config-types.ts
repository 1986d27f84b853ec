import type { ManagementClient } from "../../controller-client/connection.ts";

/** Ids of config types by name, once for each network: they hardly ever change. */
export class ConfigTypes {
  readonly #ids = new WeakMap<ManagementClient, Map<string, string>>();

  /** Undefined when the network has no type of that name. */
  async idOf(client: ManagementClient, name: string, signal: AbortSignal): Promise<string | undefined> {
    const known = this.#ids.get(client)?.get(name);
    if (known !== undefined) return known;
    const query = { filter: `name = ${JSON.stringify(name)}`, limit: 1 };
    const [type] = (await client.listConfigTypes({ query }, { signal })).data;
    if (type === undefined) return undefined;
    const ids = this.#ids.get(client) ?? new Map();
    this.#ids.set(client, ids.set(name, type.id));
    return type.id;
  }

  /** Something was refused: perhaps because a type was made anew. */
  forget(client: ManagementClient): void {
    this.#ids.delete(client);
  }
}
