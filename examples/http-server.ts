/** A web server that listens on no port, only on the overlay: `node examples/http-server.ts IDENTITY_FILE SERVICE`. */
import { createServer } from "node:http";
import { Context, EdgeConnection } from "@sallyport/sdk";

const [identityFile = "", service = ""] = process.argv.slice(2);

const http = createServer((request, response) => {
  const caller = request.socket instanceof EdgeConnection ? request.socket.callerId : undefined;
  response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
  response.end(`Hello ${caller}, this is ${service}.\n`);
});

const context = await Context.load(identityFile);
// Node's own HTTP servers let clients end first, too.
const server = await context.listen(service, { allowHalfOpen: true });
server.on("connection", (connection) => http.emit("connection", connection));
console.log(`hosting ${service}`);

process.once("SIGTERM", async () => {
  await server.close(); // no new connections
  await context.close(); // closes open connections
});
