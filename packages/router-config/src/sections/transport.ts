import { z } from "zod";
import { boolean, duration, integer, text } from "../scalars.ts";
import { section } from "../section.ts";
import { identity } from "./identity.ts";

const seconds = (standard: number) => integer({ min: 1, max: 86_400 }).default(standard);
const bytes = () => integer({ min: 1 }).default(4096);

/** Web sockets of `wss` listeners; times in seconds. */
const webSockets = section({
  handshakeTimeout: seconds(10),
  readTimeout: seconds(5),
  writeTimeout: seconds(10),
  idleTimeout: seconds(120),
  pongTimeout: seconds(60),
  pingInterval: seconds(54),
  readBufferSize: bytes(),
  writeBufferSize: bytes(),
  enableCompression: boolean().default(true),
  identity: identity.optional(),
});

/** A transport that no longer exists; its settings are read so that old files go on to work, and change nothing. */
const westworld3 = section({
  profile_version: integer({ min: 1, max: 1 }).optional(),
  tx_portal_min_sz: integer({ min: 1 }).optional(),
  tx_portal_max_sz: integer({ min: 1 }).optional(),
  instrument: section({
    name: text().optional(),
    path: text().optional(),
    snapshot_ms: integer({ min: 1, unit: "ms" }).optional(),
    enabled: boolean().optional(),
  }).optional(),
});

/** Tuning of transports. Specification: "transport". */
export const transport = section({
  wss: webSockets.optional(),
  /** What the peer's generator writes, and its reader ignores; it is taken for `wss`. */
  ws: webSockets.optional(),
  westworld3: westworld3.optional(),
  dtls: z.record(z.string(), z.unknown(), "a mapping").optional(),
  handshakeTimeout: duration({ min: 1 }).optional(),
}).transform(({ wss, ws, ...rest }) => ({ ...rest, wss: wss ?? ws ?? webSockets.parse({}) }));
