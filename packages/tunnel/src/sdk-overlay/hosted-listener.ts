import type { Context, EdgeConnection, ServiceListener } from "@sallyport/sdk";
import type { Logger } from "@sallyport/wire";
import type { HostedTerminator, OverlayHosting, OverlayService } from "../overlay.ts";
import { DuplexConnection } from "./duplex-connection.ts";

/** A terminator through the SDK. */
export class HostedListener implements HostedTerminator {
  readonly #stopped = new AbortController();
  #listener: ServiceListener | undefined;

  constructor(context: Context, service: OverlayService, o: OverlayHosting, log: Logger) {
    context
      .listen(service.name, {
        cost: o.cost,
        precedence: o.precedence,
        allowHalfOpen: true,
        signal: this.#stopped.signal,
        ...(o.instanceId === undefined ? {} : { instance: o.instanceId }),
      })
      .then(
        (listener) => {
          this.#listener = listener;
          listener.on("connection", (connection) => void this.#offer(connection, o));
          listener.on("error", () => {});
          if (this.#stopped.signal.aborted) void listener.close();
        },
        (err: unknown) => {
          if (!this.#stopped.signal.aborted) log.error({ service: service.name, err }, "hosting has ended");
        },
      );
  }

  async update(): Promise<void> {}

  healthEvent(): void {}

  async close(): Promise<void> {
    this.#stopped.abort();
    await this.#listener?.close();
  }

  async #offer(connection: EdgeConnection, o: OverlayHosting): Promise<void> {
    const adapted = new DuplexConnection(connection);
    await o.onDial({
      appData: connection.appData,
      callerId: connection.callerId,
      accept: async () => adapted,
      reject: () => connection.destroy(),
    });
  }
}
