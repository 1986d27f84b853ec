import { ApiError, type ManagementClient } from "@sallyport/api/client";
import type { ConditionDraft } from "../../kube/conditions.ts";

type HostingReason = Pick<ConditionDraft, "reason" | "message">;

/** Where nothing more is known. */
export const NOT_HOSTED: HostingReason = { reason: "NotHosted", message: "no application hosts the service" };

/** The question costs a controller ten times as much as others. */
const PER_SECOND = 10;

/** Why services have no host, in the words of a controller that can say it (`docs/why.md`). OpenZiti's controllers cannot. */
export class HostingReasons {
  /** The operator's own identity in a network: what is said of hosts is the same for every identity. */
  readonly #self = new WeakMap<ManagementClient, Promise<string>>();
  readonly #silent = new WeakSet<ManagementClient>();
  readonly #seconds = new WeakMap<ManagementClient, { readonly from: number; asked: number }>();

  /**
   * @param known what to say when too much is asked
   * @throws what the client throws, other than that there is no such operation
   */
  async of(
    client: ManagementClient,
    serviceId: string,
    known: HostingReason,
    signal: AbortSignal,
  ): Promise<HostingReason> {
    if (this.#silent.has(client)) return NOT_HOSTED;
    if (!this.#mayAsk(client)) return known;
    const id = await this.#idOf(client);
    try {
      const { data } = await client.explainAccess({ params: { id, serviceId } }, { signal });
      // Controllers of others may answer the path with anything.
      const checks = Array.isArray(data?.checks) ? data.checks : [];
      const found = checks.find(({ check }) => check === "terminators");
      if (found?.code === undefined) return NOT_HOSTED;
      const [remedy] = found.remedies ?? [];
      const message = remedy === undefined ? found.message : `${found.message}: ${remedy.text}`;
      return { reason: reasonOf(found.code), message };
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      // It may be the service that is not there any more.
      await client.detailService({ params: { id: serviceId } }, { signal });
      this.#silent.add(client);
      return NOT_HOSTED;
    }
  }

  #mayAsk(client: ManagementClient): boolean {
    const now = performance.now();
    const last = this.#seconds.get(client);
    const second = last !== undefined && now - last.from < 1_000 ? last : { from: now, asked: 0 };
    this.#seconds.set(client, second);
    return ++second.asked <= PER_SECOND;
  }

  #idOf(client: ManagementClient): Promise<string> {
    const known = this.#self.get(client);
    if (known !== undefined) return known;
    const asked = client.getCurrentIdentity().then(({ data }) => data.id);
    this.#self.set(client, asked);
    asked.catch(() => this.#self.delete(client));
    return asked;
  }
}

/** `NO_BIND_POLICY` as a reason of a condition: `NoBindPolicy`. */
function reasonOf(code: string): string {
  return code.toLowerCase().replaceAll(/(^|_)([a-z0-9])/g, (_whole, _gap, letter: string) => letter.toUpperCase());
}
