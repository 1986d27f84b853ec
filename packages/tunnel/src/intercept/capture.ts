import type { Socket } from "node:net";
import type { OpenTransport } from "../relay/client-flow.ts";
import type { Intercept } from "./intercept-set.ts";
import type { Datagram } from "./native-sockets.ts";

/** Brings what clients send to addresses that were made local into this process. */
export interface Capture {
  readonly kind: "packet filter" | "listeners";
  /** From now on exactly this is captured. Established connections go on. @throws InterceptError; then what was captured before still is */
  apply(intercepts: readonly Intercept[]): Promise<void>;
  close(): Promise<void>;
}

export interface CaptureEvents {
  /** Paused; nothing was read. Its local address is the one that the client connected to. */
  tcp(socket: Socket): void;
  datagram(datagram: Datagram, open: OpenTransport): void;
}
