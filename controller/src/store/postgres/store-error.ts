import type pg from "pg";

/** The database cannot be reached or used; the message says which one (never its password) and why. */
export class StoreError extends Error {
  override name = "StoreError";
}

/** What the client library says when a server does not answer in time. */
const SILENCE = /^(timeout expired|Query read timeout|Connection terminated due to connection timeout)$/;

/** Where the database is, without user or password. */
function describe(config: pg.ClientConfig & { readonly servers?: { readonly names: string } | undefined }): string {
  if (!config.connectionString) return `${config.database} at ${config.host}:${config.port}`;
  try {
    const url = new URL(config.connectionString);
    const place = config.servers?.names || `${url.hostname}:${url.port || 5432}`;
    return `${url.pathname.slice(1)} at ${place}`;
  } catch {
    return "(the URL is malformed: expected postgres://user:password@host/database)";
  }
}

/** Why a database cannot be used, as a person reads it. */
export function reasonOf(error: unknown): string {
  const { message = "", code = "" } = error as { message?: string; code?: string };
  if (!SILENCE.test(message)) return message || code;
  return "the server does not answer in time; look at the server, and at proxies and firewalls between it and this program";
}

/** @returns `error` as one that names the database. */
export function storeErrorOf(config: pg.ClientConfig, error: unknown): StoreError {
  return new StoreError(`cannot use the database ${describe(config)}: ${reasonOf(error)}`, { cause: error });
}

/** The error of a connection whose server does not answer. */
export function silence(): Error {
  return new Error("Query read timeout");
}

/** Is it the silence of a server? */
export function isSilence(error: unknown): boolean {
  return error instanceof Error && SILENCE.test(error.message);
}
