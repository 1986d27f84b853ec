/**
 * The yardstick: a relay that does nothing but `a.pipe(b)` between two TLS connections, a process of its own.
 * `node pipe.ts CERT KEY TARGET_PORT` prints the port it listens on; the target speaks TLS too.
 */
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:tls";

const [cert = "", key = "", targetPort = ""] = process.argv.slice(2);
/** What routers use, and cheaper than what Node asks for first. */
const parameters = { minVersion: "TLSv1.3", ciphers: "TLS_AES_128_GCM_SHA256" } as const;
const server = createServer({ cert: readFileSync(cert), key: readFileSync(key), ...parameters }, (from) => {
  const to = connect({ port: Number(targetPort), host: "127.0.0.1", rejectUnauthorized: false, ...parameters });
  from.setNoDelay(true);
  to.setNoDelay(true);
  from.pipe(to).pipe(from);
  from.on("error", () => to.destroy());
  to.on("error", () => from.destroy());
});
server.listen(0, "127.0.0.1", () => console.log(`port ${(server.address() as { port: number }).port}`));
