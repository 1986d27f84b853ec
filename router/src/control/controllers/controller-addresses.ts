import { SerialQueue } from "@sallyport/async";
import {
  type Address,
  ControlType,
  ctrlPb,
  decodeControl,
  formatAddress,
  type Logger,
  parseAddress,
} from "@sallyport/wire";
import type { Controllers } from "./controllers.ts";
import { writeEndpointsFile } from "./endpoints-file.ts";

export interface ControllerAddressesOptions {
  readonly controllers: Controllers;
  readonly endpointsFile: string;
  /** The addresses that are dialed first. */
  readonly endpoints: readonly Address[];
  readonly log: Logger;
}

/** Key of the one setting there is: the controller's new address. */
const NEW_ADDRESS = 1;

/**
 * Follows the controllers when they move or change in number: their announcements replace the list of endpoints, in
 * memory and in the endpoints file (docs/protocol/control.md, "Controller addresses").
 */
export class ControllerAddresses {
  readonly #o: ControllerAddressesOptions;
  #announced: readonly Address[];
  #index = 0n;
  /** Of the newest announcement of a leader: the set may be known from another controller already. */
  #leaderIndex = 0n;
  #leader: string | undefined;
  /** Changes are written one after the other. */
  readonly #writes = new SerialQueue();
  #written: Promise<void> = Promise.resolve();

  constructor(options: ControllerAddressesOptions) {
    this.#o = options;
    this.#announced = options.endpoints;
    const { controllers } = options;
    controllers.handle(ControlType.Settings, (message) => {
      const { data } = decodeControl(ctrlPb.SettingsSchema, message.body);
      const address = data[NEW_ADDRESS];
      if (address !== undefined) this.#replace([Buffer.from(address).toString("utf8")]);
    });
    controllers.handle(ControlType.UpdateCtrlAddresses, (message, controller) => {
      const update = decodeControl(ctrlPb.UpdateCtrlAddressesSchema, message.body);
      // Controllers of 2.x name every endpoint by controller; the plain list is for older routers.
      const owners = update.controllers.flatMap(({ id, endpoints }) =>
        endpoints.map(({ address }) => [address, id] as const),
      );
      const addresses = owners.length > 0 ? owners.map(([address]) => address) : update.addresses;
      if (update.isLeader) this.#led(controller.id, update.index);
      if (addresses.length === 0 || (this.#index !== 0n && update.index <= this.#index)) return;
      this.#index = update.index;
      this.#replace(addresses, new Map(owners));
    });
    controllers.handle(ControlType.UpdateClusterLeader, (message, controller) => {
      this.#led(controller.id, decodeControl(ctrlPb.UpdateClusterLeaderSchema, message.body).index);
    });
  }

  /** Id of the controller that leads its cluster, once one said so. */
  get leader(): string | undefined {
    return this.#leader;
  }

  /** The addresses announced last; before an announcement those that were dialed first. */
  get announced(): readonly Address[] {
    return this.#announced;
  }

  /** The controllers number their announcements from the start again: their database was replaced by another. */
  forgetIndex(): void {
    this.#index = 0n;
    this.#leaderIndex = 0n;
  }

  /** Resolves when the last change is in the file. */
  settled(): Promise<void> {
    return this.#written;
  }

  #led(id: string, index: bigint): void {
    if (index < this.#leaderIndex) return;
    this.#leaderIndex = index;
    this.#leader = id;
  }

  /** @param named id of the controller that answers at an address, where it is said */
  #replace(texts: readonly string[], named: ReadonlyMap<string, string> = new Map()): void {
    const { controllers, endpointsFile, log } = this.#o;
    const endpoints: Address[] = [];
    const owners = new Map<string, string>();
    for (const text of texts) {
      try {
        const address = parseAddress(text);
        endpoints.push(address);
        const owner = named.get(text);
        if (owner !== undefined && owner !== "") owners.set(formatAddress(address), owner);
      } catch (error) {
        log.warn({ address: text, err: error }, "a controller announced an address that cannot be used");
      }
    }
    if (endpoints.length === 0) return;
    const before = textOf(this.#announced);
    this.#announced = endpoints;
    if (textOf(endpoints) !== before) {
      log.info({ endpoints: endpoints.map(formatAddress) }, "the controllers' addresses changed");
      this.#written = this.#writes
        .run(() => writeEndpointsFile(endpointsFile, endpoints))
        .catch((error: unknown) => {
          log.error({ endpointsFile, err: error }, "the controllers' new addresses could not be saved");
        });
    }
    controllers.setEndpoints(endpoints, owners);
  }
}

function textOf(endpoints: readonly Address[]): string {
  return endpoints.map(formatAddress).toSorted().join();
}
