/** Structured logging as the wire uses it; a pino logger fits. Fields never hold secrets, tokens or key material. */
export interface Logger {
  debug(fields: object, msg: string): void;
  info(fields: object, msg: string): void;
  warn(fields: object, msg: string): void;
  error(fields: object, msg: string): void;
}

const drop = (): void => {};

/** Says nothing: for programs that bring no logger. */
export const silentLogger: Logger = { debug: drop, info: drop, warn: drop, error: drop };
