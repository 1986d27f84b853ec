import type { ControlMessage, FrameView } from "@sallyport/wire";

/** A dial that waits for the controller. */
export interface PendingConnect {
  readonly sessionToken: string;
  readonly abort: AbortController;
}

/** A circuit of an SDK under a connection id: with flow control by the router, or by the SDK. */
export interface ClientCircuit {
  readonly connId: number;
  readonly circuitId: string;
  /** Token of the dial or bind session it was made with. */
  readonly sessionToken: string;
  /** Its payloads are datagrams, as far as is known: it ends by silence only. */
  readonly carriesDatagrams: boolean;
  /** A Data message from the SDK. */
  data(frame: FrameView): void;
  sendControl(message: ControlMessage): void;
  /** The SDK closed it. */
  closedBySdk(): void;
  /** Ends it, telling the SDK why. */
  close(reason: string): void;
  /** The SDK's channel is gone. */
  channelClosed(): void;
}
