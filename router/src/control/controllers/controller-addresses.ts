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
  #index = 0n;
  #leader: string | undefined;
  #written: Promise<void> = Promise.resolve();

  constructor(options: ControllerAddressesOptions) {
    this.#o = options;
    const { controllers } = options;
    controllers.handle(ControlType.Settings, (message) => {
      const { data } = decodeControl(ctrlPb.SettingsSchema, message.body);
      const address = data[NEW_ADDRESS];
      if (address !== undefined) this.#replace([Buffer.from(address).toString("utf8")]);
    });
    controllers.handle(ControlType.UpdateCtrlAddresses, (message, controller) => {
      const update = decodeControl(ctrlPb.UpdateCtrlAddressesSchema, message.body);
      // Controllers of 2.x name every endpoint by controller; the plain list is for older routers.
      const named = update.controllers.flatMap(({ endpoints }) => endpoints.map(({ address }) => address));
      const addresses = named.length > 0 ? named : update.addresses;
      if (addresses.length === 0 || !this.#advance(update.index)) return;
      if (update.isLeader) this.#leader = controller.id;
      this.#replace(addresses);
    });
    controllers.handle(ControlType.UpdateClusterLeader, (message, controller) => {
      if (this.#advance(decodeControl(ctrlPb.UpdateClusterLeaderSchema, message.body).index))
        this.#leader = controller.id;
    });
  }

  /** Id of the controller that leads its cluster, once one said so. */
  get leader(): string | undefined {
    return this.#leader;
  }

  /** Resolves when the last change is in the file. */
  settled(): Promise<void> {
    return this.#written;
  }

  #advance(index: bigint): boolean {
    if (this.#index !== 0n && index <= this.#index) return false;
    this.#index = index;
    return true;
  }

  #replace(texts: readonly string[]): void {
    const { controllers, endpointsFile, log } = this.#o;
    const endpoints: Address[] = [];
    for (const text of texts) {
      try {
        endpoints.push(parseAddress(text));
      } catch (error) {
        log.warn({ address: text, err: error }, "a controller announced an address that cannot be used");
      }
    }
    if (endpoints.length === 0) return;
    const list = endpoints.map(formatAddress);
    if (list.toSorted().join() === controllers.endpoints.toSorted().join()) return;
    log.info({ endpoints: list }, "the controllers' addresses changed");
    this.#written = writeEndpointsFile(endpointsFile, endpoints).catch((error: unknown) => {
      log.error({ endpointsFile, err: error }, "the controllers' new addresses could not be saved");
    });
    controllers.setEndpoints(endpoints);
  }
}
