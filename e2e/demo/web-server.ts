/**
 * The demo's web server: `node web-server.ts IDENTITY_FILE SERVICE`. It listens on no port, only on the overlay.
 * `GET /` is a page; `POST /echo` sends back what it is sent.
 */
import { createServer } from "node:http";
import { Context } from "@sallyport/sdk";

const [identityFile = "", service = ""] = process.argv.slice(2);

const http = createServer((request, response) => {
  if (request.method === "POST") {
    response.writeHead(200, { "content-type": "application/octet-stream" });
    request.pipe(response);
    return;
  }
  response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
  response.end(`Hello from ${service}: this server listens on no port.\n`);
});

const context = await Context.load(identityFile);
const server = await context.listen(service, { allowHalfOpen: true });
server.on("connection", (socket) => http.emit("connection", socket));
console.log("hosting");

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, async () => {
    await server.close();
    await context.close();
  });
}
