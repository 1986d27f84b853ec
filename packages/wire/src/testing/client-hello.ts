import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { type ConnectionOptions, connect } from "node:tls";

/** The first bytes that a real TLS client sends: a ClientHello. */
export async function firstBytes(options: ConnectionOptions = {}): Promise<Buffer> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const accepted = once(server, "connection");
  const client = connect({ host: "127.0.0.1", port, ...options });
  client.on("error", () => {});
  const [socket] = (await accepted) as [Socket];
  const [bytes] = (await once(socket, "data")) as [Buffer];
  for (const end of [socket, client]) end.destroy();
  server.close();
  return bytes;
}
