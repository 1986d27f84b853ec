import { errorText } from "@sallyport/async";
import { boundedLog, type Logger } from "@sallyport/wire";
import { appDataOf } from "../config/app-data.ts";
import type { InterceptConfig } from "../config/intercept-config.ts";
import { fillClient, fillIdentity, hostPort } from "../config/template.ts";
import type { ClientAddresses, InterceptedClients, TcpClient, UdpFlow } from "../interceptor.ts";
import type { ConnectionKind, Overlay, OverlayConnection, OverlayService } from "../overlay.ts";
import { DatagramRelay } from "../relay/datagram-relay.ts";
import type { Relays } from "../relay/relays.ts";
import { TcpRelay } from "../relay/tcp-relay.ts";

/** What dialling works with. */
export interface DialingParts {
  readonly overlay: Overlay;
  readonly relays: Relays;
  readonly log: Logger;
}

/** Makes circuits to one service for the clients that an interceptor gives. */
export class DialedService implements InterceptedClients {
  readonly #service: OverlayService;
  readonly #config: InterceptConfig;
  readonly #parts: DialingParts;
  /** Clients fail as often as they like. */
  readonly #log: Logger;
  readonly #stopped = new AbortController();

  constructor(service: OverlayService, config: InterceptConfig, parts: DialingParts) {
    this.#service = service;
    this.#config = config;
    this.#parts = parts;
    this.#log = boundedLog(parts.log);
  }

  /** Gives up the dials under way. Connections that exist go on. */
  close(): void {
    this.#stopped.abort(new Error("the service may no longer be dialled"));
  }

  tcp({ addresses, socket }: TcpClient): void {
    // A client's failure before the relay has the socket needs no report.
    socket.on("error", () => {});
    void this.#connect(addresses, "stream", {
      taken: (connection, onEnd) => new TcpRelay(socket, connection, onEnd),
      refused: () => socket.resetAndDestroy(),
    });
  }

  udp(flow: UdpFlow): void {
    const gone = new AbortController();
    flow.onClose(() => gone.abort(new Error("the client's flow has ended")));
    void this.#connect(
      flow.addresses,
      "datagrams",
      {
        taken: (connection, onEnd) => new DatagramRelay(flow, connection, onEnd),
        refused: () => flow.close(),
      },
      gone.signal,
    );
  }

  async #connect(
    client: ClientAddresses,
    kind: ConnectionKind,
    end: {
      taken: (connection: OverlayConnection, onEnd: (reason: string) => void) => TcpRelay | DatagramRelay;
      refused: () => void;
    },
    gone?: AbortSignal,
  ): Promise<void> {
    const { relays } = this.#parts;
    const log = this.#log;
    const fields = { service: this.#service.name, client: hostPort(client.sourceIp, client.sourcePort) };
    try {
      const connection = await this.#dial(client, kind, gone);
      const whole = { ...fields, circuitId: connection.circuitId };
      log.debug(whole, "a client was connected");
      const onEnd = (reason: string) => {
        relays.remove(relay);
        log.debug({ ...whole, reason }, "a client's circuit has ended");
      };
      const relay = end.taken(connection, onEnd);
      relays.add(relay);
      relay.start();
    } catch (error) {
      log.warn({ ...fields, reason: errorText(error) }, "a client got no circuit");
      end.refused();
    }
  }

  async #dial(client: ClientAddresses, kind: ConnectionKind, gone?: AbortSignal): Promise<OverlayConnection> {
    const { instance, sourceIp, connectTimeoutMs } = this.#config;
    const stopped = this.#stopped.signal;
    return await this.#parts.overlay.dial(this.#service, {
      kind,
      instanceId: this.#fill("dialOptions.identity", instance, client),
      appData: appDataOf(client, this.#fill("sourceIp", sourceIp, client)),
      timeoutMs: connectTimeoutMs,
      signal: gone === undefined ? stopped : AbortSignal.any([stopped, gone]),
      localAddress: hostPort(client.destinationIp, client.destinationPort),
      remoteAddress: hostPort(client.sourceIp, client.sourcePort),
    });
  }

  /** A template that is not well-formed is not used; one that comes out empty means nothing. */
  #fill(key: string, template: string | undefined, client: ClientAddresses): string | undefined {
    if (template === undefined) return undefined;
    try {
      return fillClient(fillIdentity(template, this.#parts.overlay.identity), client) || undefined;
    } catch (error) {
      const reason = errorText(error);
      this.#log.warn({ service: this.#service.name, key, reason }, "a template cannot be used");
      return undefined;
    }
  }
}
