import type { KubeClient } from "../../../kube/client/client.ts";
import { KINDS, refOf, type SecretObject } from "../../../kube/kinds.ts";
import type { HeldSecret } from "../plan/held-secret.ts";
import type { IdentityResource } from "../schema.ts";
import { contentOf, heldSecret, isOwnSecret, isSameSecret, type SecretContent, secretWith } from "./content.ts";

/**
 * One Secret of one Identity. Every write is of the state that was read, so that a Secret which somebody else made or changed meanwhile is never
 * overwritten: then the write throws a `KubeError` of a conflict, and the next look decides.
 */
export class IdentitySecret {
  readonly #client: Pick<KubeClient, "create" | "replace" | "delete">;
  readonly #resource: IdentityResource;
  readonly #name: string;
  readonly #signal: AbortSignal;
  #found: SecretObject | undefined;

  /** @param found the Secret of that name as it was read just now */
  constructor(
    client: Pick<KubeClient, "create" | "replace" | "delete">,
    resource: IdentityResource,
    name: string,
    found: SecretObject | undefined,
    signal: AbortSignal,
  ) {
    this.#client = client;
    this.#resource = resource;
    this.#name = name;
    this.#found = found;
    this.#signal = signal;
  }

  get name(): string {
    return this.#name;
  }

  get held(): HeldSecret {
    return heldSecret(this.#found, this.#resource);
  }

  /** What is in it; nothing when it is not ours. */
  get content(): SecretContent {
    return this.#found !== undefined && isOwnSecret(this.#found, this.#resource) ? contentOf(this.#found) : {};
  }

  /** Replaces what the operator keeps in it. No write when it is so already. */
  async write(content: SecretContent): Promise<void> {
    if (this.held.state === "foreign") throw new TypeError(`the Secret ${this.#name} is not ours to write`);
    const wanted = secretWith(content, this.#found, this.#resource, this.#name);
    if (isSameSecret(wanted, this.#found)) return;
    const o = { signal: this.#signal };
    this.#found =
      this.#found === undefined
        ? await this.#client.create<SecretObject>(wanted, o)
        : await this.#client.replace<SecretObject>(wanted, o);
  }

  /** Deletes it, if it is ours and nobody changed it since. */
  async delete(): Promise<void> {
    if (this.held.state !== "ours" || this.#found === undefined) return;
    const { uid, resourceVersion } = this.#found.metadata;
    const precondition = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    await this.#client.delete(refOf(KINDS.Secret, this.#found), { ...precondition, signal: this.#signal });
    this.#found = undefined;
  }
}
