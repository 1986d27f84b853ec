import { type NetworkInterfaceInfo, networkInterfaces } from "node:os";
import { errorText } from "@sallyport/async";
import { ControlType, ctrlPb, encodeControl, isAtLeast, type Logger } from "@sallyport/wire";
import type { ControllerConnection } from "./controllers/controller-connection.ts";
import type { Controllers } from "./controllers/controllers.ts";

export interface InterfaceReportsOptions {
  readonly controllers: Controllers;
  readonly checkIntervalMs: number;
  readonly minReportIntervalMs: number;
  readonly log: Logger;
}

/** Flags of a report: up, loopback. */
const UP = 1n;
const LOOPBACK = 4n;

/** Tells the controllers the network interfaces: after connecting, when they change, and now and then (docs/protocol/control.md, "Interfaces"). */
export class InterfaceReports {
  readonly #o: InterfaceReportsOptions;
  readonly #timer: NodeJS.Timeout;
  #last: { text: string; at: number } = { text: "", at: Number.NEGATIVE_INFINITY };

  constructor(options: InterfaceReportsOptions) {
    this.#o = options;
    options.controllers.onConnected((controller) => this.#send(controller, interfaces()));
    this.#timer = setInterval(() => this.#check(), options.checkIntervalMs);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #check(): void {
    const now = interfaces();
    const text = JSON.stringify(now, (_key, value: unknown) => (typeof value === "bigint" ? String(value) : value));
    if (text === this.#last.text && performance.now() - this.#last.at < this.#o.minReportIntervalMs) return;
    this.#last = { text, at: performance.now() };
    for (const controller of this.#o.controllers.all()) this.#send(controller, now);
  }

  #send(controller: ControllerConnection, list: ReturnType<typeof interfaces>): void {
    if (!isAtLeast(controller.version.version, [1, 6, 3])) return;
    const body = encodeControl(ctrlPb.RouterInterfacesUpdateSchema, { interfaces: list });
    controller.channel.request({ contentType: ControlType.RouterInterfacesUpdate, body }).catch((error: unknown) => {
      this.#o.log.debug({ controllerId: controller.id, reason: errorText(error) }, "the interfaces were not taken");
    });
  }
}

function interfaces() {
  return Object.entries(networkInterfaces()).map(([name, infos = []], i) => ({
    name,
    hardwareAddress: infos[0]?.mac ?? "",
    index: BigInt(i + 1),
    flags: UP | (infos[0]?.internal === true ? LOOPBACK : 0n),
    addresses: infos.map((info: NetworkInterfaceInfo) => info.cidr ?? info.address),
  }));
}
