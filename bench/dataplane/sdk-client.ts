/** Dials a service with our SDK for each TCP connection: `node sdk-client.ts IDENTITY SERVICE` prints the port it listens on. */
import { createServer } from "node:net";
import { Context } from "@sallyport/sdk";

const [identityFile = "", service = ""] = process.argv.slice(2);
const context = await Context.load(identityFile);
const server = createServer({ noDelay: true, allowHalfOpen: true }, async (socket) => {
  socket.on("error", () => socket.destroy());
  try {
    const stream = await context.dial(service);
    socket.pipe(stream).pipe(socket);
    stream.on("error", () => socket.destroy());
    socket.on("close", () => stream.destroy());
  } catch (error) {
    console.error(String(error));
    socket.destroy();
  }
});
server.listen(0, "127.0.0.1", () => console.log(`port ${(server.address() as { port: number }).port}`));

process.once("SIGTERM", () => process.exit(0));
