import type { ClientListener } from "../channel-members.ts";
import type { SdkChannel } from "../sdk-channel.ts";

/** A listener of an SDK on this router, and the terminator that stands for it at the controller. */
export interface SdkBinding extends ClientListener {
  /** Chosen by this router; also the terminator's address. */
  readonly terminatorId: string;
  readonly sdk: SdkChannel;
  /** Identity and listener id: the same listener may come back over another channel. Absent when the SDK gave none. */
  readonly listenerKey: string | undefined;
  readonly instanceId: string;
  /** The SDK lets the router choose ids of incoming connections. */
  readonly routerProvidedConnIds: boolean;
  /** The SDK does the flow control of its circuits itself. */
  readonly flowControlBySdk: boolean;
  readonly supportsInspect: boolean;
  readonly wantsBindSuccess: boolean;
  /** Public key for end-to-end encryption, which the dialing side gets unless the dial brings another. */
  readonly publicKey: Buffer | undefined;
  /** Aborted when the listener ends: dials to it fail at once. */
  readonly ended: AbortController;
}
