import type { ConnectionOptions } from "node:tls";

/** A connection to a place, which is to carry TLS; undefined: it is made directly. */
export type Connect = (target: {
  readonly host: string;
  readonly port: number;
}) => Promise<ConnectionOptions["socket"]>;
