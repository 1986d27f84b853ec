import { DEFAULT_LIMITS, type FrameLimits } from "../frame/frame.ts";
import type { Headers } from "../frame/headers.ts";
import type { Logger } from "../log.ts";
import { DEFAULT_MAX_PENDING, type OutputLimits } from "../socket/slab-output.ts";
import type { ChannelLimits } from "./channel.ts";
import type { Hello } from "./hello.ts";
import type { Peer } from "./peer.ts";

/** Everything that a channel is made from once the hellos are exchanged. */
export interface ChannelParts {
  readonly label: string;
  readonly peer: Peer;
  readonly remoteId: string;
  readonly hello: Hello;
  readonly result: Headers;
  readonly connectionId: string;
  readonly isGrouped: boolean;
  readonly limits: FrameLimits;
  readonly outputLimits: OutputLimits;
  readonly log: Logger;
}

/** The limits of a channel with the defaults filled in. */
export function limitsOf(given: ChannelLimits): Pick<ChannelParts, "limits" | "outputLimits"> {
  const { maxBody = DEFAULT_LIMITS.maxBody, maxPending = DEFAULT_MAX_PENDING, writeTimeoutMs } = given;
  return {
    limits: { ...DEFAULT_LIMITS, maxBody },
    outputLimits: writeTimeoutMs === undefined ? { maxPending } : { maxPending, writeTimeoutMs },
  };
}
