import type { X509Certificate } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { boundedLog, type Logger, listen, SharedConnections } from "@sallyport/wire";
import type { Page } from "../http/pages.ts";
import type { ControllerMetrics } from "./metrics.ts";

const MAX_CONNECTIONS = 16;

/**
 * Serves `/metrics` over plain HTTP on an address of its own, without authentication: meant for a loopback or otherwise closed address.
 * @throws Error when the address cannot be listened on
 */
export async function startMetricsListener(o: {
  readonly host: string;
  readonly port: number;
  readonly metrics: ControllerMetrics;
  readonly log: Logger;
}): Promise<{ readonly port: number; close(): Promise<void> }> {
  const { registry } = o.metrics;
  const server = createServer({ requestTimeout: 5_000, headersTimeout: 5_000 }, async (request, response) => {
    if (request.method !== "GET" || request.url?.split("?", 1)[0] !== "/metrics") {
      response.writeHead(404).end();
      return;
    }
    try {
      const text = await registry.metrics();
      response.writeHead(200, { "content-type": registry.contentType }).end(text);
    } catch (error) {
      o.log.error({ error }, "the figures could not be collected");
      response.writeHead(500).end();
    }
  });
  const connections = new SharedConnections(MAX_CONNECTIONS);
  server.on("connection", (socket: Socket) => connections.add(socket));
  const log = boundedLog(o.log);
  await listen(server, { port: o.port, host: o.host === "" ? undefined : o.host }, (error) =>
    log.warn({ error }, "a connection for the figures could not be accepted"),
  );
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/**
 * `/metrics` beside the APIs: for the one certificate that is allowed; other clients get 404.
 * @param isAllowed may the client that presented these certificates see the figures?
 */
export function metricsPage(
  metrics: ControllerMetrics,
  isAllowed: (certificates: readonly X509Certificate[]) => boolean,
): Page {
  return {
    path: "/metrics",
    async handle({ peerCertificates }) {
      if (!isAllowed(peerCertificates)) return undefined;
      return { status: 200, contentType: metrics.registry.contentType, body: await metrics.registry.metrics() };
    },
  };
}
