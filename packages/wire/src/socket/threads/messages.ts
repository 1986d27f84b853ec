import type { Identity, IdentityPem } from "../../identity/identity.ts";
import type { Logger } from "../../log.ts";
import type { AlpnEntry } from "../alpn.ts";
import type { SocketAddresses } from "../stream-socket.ts";

/** Bytes that one end of a connection may give the other thread before it learns what became of them. */
export const WINDOW: number = 256 * 1024;
/** Bytes after which it is told. */
export const TELL_AT: number = 64 * 1024;

/** What is said about one connection, with a number. */
export const Op = {
  /** So many bytes of it, which are in the batch. */
  data: 0,
  /** So many bytes of what the other thread gave have left: to the socket, or to the reader. */
  taken: 1,
  /** Nothing more will be written, or was sent by the peer. */
  end: 2,
  /** Everything written, and the end, has left. */
  finished: 3,
  /** The connection is not needed any more. */
  destroy: 4,
} as const;
export type Op = (typeof Op)[keyof typeof Op];

/** A user of the port, as far as its thread has to know it. */
export interface ThreadUser extends AlpnEntry {
  readonly name: string;
}

/** What a thread is started with. */
export interface ThreadSettings {
  readonly host: string;
  readonly port: number;
  readonly handshakeTimeoutMs: number;
  readonly identity: IdentityPem;
  readonly users: readonly ThreadUser[];
}

/** To a thread. */
export type Instruction =
  | { readonly kind: "identity"; readonly identity: IdentityPem }
  | { readonly kind: "users"; readonly users: readonly ThreadUser[] }
  | { readonly kind: "close" };

/** A connection whose handshake is done. */
export interface OpenedConnection extends SocketAddresses {
  readonly connection: number;
  readonly user: string;
  /** DER of what the client presented, leaf first. */
  readonly certificates: readonly Uint8Array[];
}

/** From a thread. */
export type ThreadReport =
  | { readonly kind: "listening"; readonly port: number }
  | ({ readonly kind: "opened" } & OpenedConnection)
  | { readonly kind: "closed"; readonly connection: number; readonly error: Error | undefined }
  | { readonly kind: "log"; readonly level: keyof Logger; readonly fields: object; readonly msg: string };

/** The parts of an identity that another thread can make the same of. */
export function pemOf({ certPem, keyPem, caPem, serverCertPem, serverKeyPem, altServerCerts }: Identity): IdentityPem {
  return { certPem, keyPem, caPem, serverCertPem, serverKeyPem, altServerCerts };
}
