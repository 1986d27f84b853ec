/**
 * A port that asks for certificates, for bench/trust: ours, or Node's server alone. Started as a process of its own, whose CPU time counts.
 *
 *     node bench/trust/port.ts ours|node
 */
import { createServer } from "node:tls";
import { TlsPort } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";

const identity = await (await TestAuthority.create()).identity("port");

async function listen(kind: string | undefined): Promise<number> {
  if (kind === "ours") {
    const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    port.register({ name: "any", protocols: [], acceptsNoAlpn: true, onSocket: (socket) => void socket.end("served") });
    return port.port;
  }
  const { certPem: cert, keyPem: key } = identity;
  const server = createServer({ cert, key, requestCert: true, rejectUnauthorized: false }, (socket) => {
    socket.on("error", () => socket.destroy()).end("served");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as { port: number }).port;
}

process.send?.({ port: await listen(process.argv[2]) });
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1000 });
});
process.on("disconnect", () => process.exit());
