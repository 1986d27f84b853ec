// Hosts the service greetings: no port is opened, neither in the cluster nor in the pod.
import { createServer } from "node:http";
import { Context } from "@sallyport/sdk";

const context = await Context.load("/identity/identity.json", { log: console });
const web = createServer((_request, response) => response.end("greetings from the SDK\n"));
const site = await context.listen("greetings", { allowHalfOpen: true });
site.on("connection", (connection) => web.emit("connection", connection));
site.on("error", (error) => console.error(error.message));
console.log("greetings can be dialled");

process.once("SIGTERM", async () => {
  await site.close(); // no new connections; requests in progress continue
  await context.close();
});
