import type { Context, Hosted } from "@sallyport/sdk";
import type { HostedTerminator, OverlayHosting, OverlayService } from "../overlay.ts";

/** A terminator as the SDK keeps it: one on each of several routers, all offered alike. */
export class SdkTerminator implements HostedTerminator {
  readonly #hosted: Hosted;
  #isEstablished = false;

  constructor(context: Context, service: OverlayService, o: OverlayHosting) {
    this.#hosted = context.host(service.name, {
      cost: o.cost,
      precedence: o.precedence,
      ...(o.instanceId === undefined ? {} : { instance: o.instanceId }),
      onDial: (dial) => {
        const { appData, callerId, signal } = dial;
        const accept = async ({ kind }: { kind: "stream" | "datagrams" }) =>
          await dial.accept({ datagrams: kind === "datagrams" });
        // A refusal that finds its router gone, or too full to take it, is nobody's any more.
        o.onDial({ appData, callerId, signal, accept, reject: (reason) => dial.reject(reason) }).catch(() => {});
      },
    });
    void this.#hosted.established.then(() => {
      this.#isEstablished = true;
    });
  }

  get isEstablished(): boolean {
    return this.#isEstablished;
  }

  async update(o: Parameters<HostedTerminator["update"]>[0]): Promise<void> {
    this.#hosted.update(o);
  }

  healthEvent(passed: boolean): void {
    this.#hosted.healthEvent(passed);
  }

  async close(): Promise<void> {
    await this.#hosted.close();
  }
}
