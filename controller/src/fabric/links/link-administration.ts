import type { Logger } from "@sallyport/wire";
import type { Rerouter } from "../circuits/rerouter.ts";
import type { LinkSetting, LinkSettings } from "../replicas.ts";
import type { LinkMessages } from "./link-messages.ts";
import type { Link } from "./link-table.ts";
import type { Mesh } from "./mesh.ts";

interface LinkAdministrationParts {
  readonly mesh: Mesh;
  readonly rerouter: Pick<Rerouter, "linkLost">;
  readonly messages: Pick<LinkMessages, "remove" | "forget">;
  readonly settings: LinkSettings;
  readonly log: Logger;
}

/** What administrators do to links, at this controller or another one of the network. Source: docs/protocol/replicas.md, "Links". */
export class LinkAdministration {
  readonly #parts: LinkAdministrationParts;
  readonly #stop: () => void;

  constructor(parts: LinkAdministrationParts) {
    this.#parts = parts;
    this.#stop = parts.settings.onChange((id, setting) => this.#set(id, setting));
  }

  /** Has both ends close a link and moves its circuits; false when there is none. Other controllers hear of it from the routers. */
  remove(id: string): boolean {
    const { messages, settings, log } = this.#parts;
    settings.set(id, undefined).catch((err: unknown) => {
      log.error({ linkId: id, err }, "what was set of a removed link could not be deleted");
    });
    return messages.remove(id);
  }

  /** The same of a link that was removed at another controller, which tells its ends. */
  forget(id: string): void {
    this.#parts.messages.forget(id);
  }

  /** Undefined when there is no such link. */
  async update(id: string, change: Partial<LinkSetting>): Promise<Link | undefined> {
    const { mesh, settings } = this.#parts;
    const link = mesh.links.get(id);
    if (link === undefined) return undefined;
    const { staticCost, isDown } = { ...link, ...change };
    this.#set(id, { staticCost, isDown });
    await settings.set(id, { staticCost, isDown });
    return mesh.links.get(id);
  }

  close(): void {
    this.#stop();
  }

  #set(id: string, setting: LinkSetting): void {
    const { mesh, rerouter } = this.#parts;
    const link = mesh.links.update(id, setting);
    if (link?.isDown) rerouter.linkLost(id);
  }
}
