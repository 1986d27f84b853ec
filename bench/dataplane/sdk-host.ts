/** Hosts a service with our SDK and hands each connection to a TCP port of this machine: `node sdk-host.ts IDENTITY SERVICE PORT`. */
import { connect } from "node:net";
import { Context } from "@sallyport/sdk";

const [identityFile = "", service = "", port = ""] = process.argv.slice(2);
const context = await Context.load(identityFile);
const server = await context.listen(service);
server.on("connection", (stream) => {
  const socket = connect({ port: Number(port), host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
  stream.pipe(socket).pipe(stream);
  stream.on("error", () => socket.destroy());
  socket.on("error", () => stream.destroy());
  stream.on("close", () => socket.destroy());
});
console.log("hosting");

process.once("SIGTERM", () => process.exit(0));
