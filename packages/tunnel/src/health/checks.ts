import { once } from "node:events";
import { connect } from "node:net";
import { errorText } from "@sallyport/async";
import type { HealthCheckConfig } from "../config/health-config.ts";

/** Of an answer so much is searched for what is expected in it. */
const MAX_BODY = 1024 * 1024;

/** Looks once. @returns why the check fails; undefined when it passes */
export async function runCheck(check: HealthCheckConfig, stopped: AbortSignal): Promise<string | undefined> {
  const timeout = AbortSignal.timeout(check.timeoutMs);
  const signal = AbortSignal.any([timeout, stopped]);
  try {
    return await (check.kind === "port" ? checkPort(check, signal) : checkHttp(check, signal));
  } catch (error) {
    if (timeout.aborted) return `no answer within ${check.timeoutMs} ms`;
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
    return `${errorText(error)}${cause}`;
  }
}

async function checkPort(check: { host: string; port: number }, signal: AbortSignal): Promise<undefined> {
  const socket = connect({ host: check.host, port: check.port });
  try {
    await once(socket, "connect", { signal });
  } finally {
    socket.destroy();
  }
}

async function checkHttp(
  check: Extract<HealthCheckConfig, { kind: "http" }>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { url, method, body, expectStatus, expectInBody } = check;
  const response = await fetch(url, {
    method,
    ...(body === undefined || method === "GET" ? {} : { body }),
    // Each look is a connection of its own: a kept one says nothing about the next client's.
    headers: { connection: "close" },
    signal,
  });
  const text = await textOf(response);
  if (response.status !== expectStatus) return `expected status ${expectStatus}, got ${response.status}`;
  if (expectInBody !== undefined && !text.includes(expectInBody)) {
    return `expected ${JSON.stringify(expectInBody)} in the body`;
  }
  return undefined;
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > MAX_BODY) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}
