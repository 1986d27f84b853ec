/**
 * The binary protocols of the overlay: addresses, identities, frames, channels and their vocabulary. Knows no policy.
 * `docs/protocol/` says what is on the wire.
 */
export * from "./channel.ts";
export * from "./errors.ts";
export * from "./frame.ts";
export * from "./headers.ts";
export * from "./hello.ts";
export * from "./ids.ts";
export * from "./log.ts";
export * from "./message.ts";
export * from "./output.ts";
export * from "./peer.ts";
export * from "./version.ts";
