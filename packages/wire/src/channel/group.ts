import { randomBytes, timingSafeEqual } from "node:crypto";
import { BaseHeader } from "../catalogue/base.ts";
import { HandshakeError } from "../errors.ts";
import type { Hello } from "./hello.ts";
import type { MessageChannel } from "./message-channel.ts";

const SECRET_LENGTH = 16;
/** Connections that one group may hold. */
const MAX_UNDERLAYS = 256;

/** A grouped channel that more connections may join. */
export interface ChannelGroup {
  readonly channel: MessageChannel;
  readonly secret: Buffer;
  /** Leaf certificate of the first connection; the others must show the same. */
  readonly fingerprint: string | undefined;
}

/** What a hello asks of a listener that supports groups. */
export type GroupDecision =
  | { readonly kind: "single" }
  | {
      readonly kind: "first";
      readonly connectionId: string | undefined;
      readonly secret: Buffer;
      readonly type: string;
    }
  | { readonly kind: "join"; readonly group: ChannelGroup; readonly type: string };

/**
 * Decides what becomes of a connection (docs/protocol/channel.md, "Groups").
 * @throws HandshakeError `GROUP_UNKNOWN`, `GROUP_REFUSED` or `GROUP_FULL`: the connection is closed, the group stays as it is
 */
export function decideGroup(
  hello: Hello,
  fingerprint: string | undefined,
  groups: ReadonlyMap<string, ChannelGroup>,
): GroupDecision {
  const { headers } = hello;
  if (headers.getBool(BaseHeader.IsGrouped) !== true) return { kind: "single" };
  const named = headers.getString(BaseHeader.ConnectionId);
  const connectionId = named === "" ? undefined : named;
  const type = headers.getString(BaseHeader.Type) ?? "";
  const offered = headers.get(BaseHeader.GroupSecret);
  const group = connectionId === undefined ? undefined : groups.get(connectionId);
  if (group !== undefined) {
    if (offered === undefined || !sameSecret(offered, group.secret) || fingerprint !== group.fingerprint) {
      throw new HandshakeError(
        "GROUP_REFUSED",
        "a connection that wants to join a group must know its secret and show the certificate of its first connection",
      );
    }
    if (group.channel.underlays.length >= MAX_UNDERLAYS) {
      throw new HandshakeError("GROUP_FULL", `a group holds at most ${MAX_UNDERLAYS} connections`);
    }
    return { kind: "join", group, type };
  }
  if (headers.getBool(BaseHeader.IsFirstGroupConnection) !== true) {
    // Dialers from before group secrets say neither "first" nor name a group; without a secret they get one connection.
    if (connectionId === undefined) return { kind: "single" };
    throw new HandshakeError(
      "GROUP_UNKNOWN",
      "a connection wants to join a group that does not exist (any more) and does not claim to be its first",
    );
  }
  const secret = offered !== undefined && offered.length > 0 ? Buffer.from(offered) : randomBytes(SECRET_LENGTH);
  return { kind: "first", connectionId, secret, type };
}

/** Takes the same time for every wrong secret of the right length. */
function sameSecret(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}
