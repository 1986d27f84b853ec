// Asks the service greetings, by its name, for every client of this pod on port 8080.
import { createServer, get } from "node:http";
import { Context } from "@sallyport/sdk";

const context = await Context.load("/identity/identity.json", { log: console });
const agent = context.httpAgent();
const web = createServer((request, response) => {
  get(`http://greetings${request.url}`, { agent }, (answer) => answer.pipe(response)).on("error", (error) => {
    response.writeHead(502).end(`${error.message}\n`);
  });
});
web.listen(8080);

process.once("SIGTERM", async () => {
  web.close();
  web.closeIdleConnections();
  agent.destroy();
  await context.close();
});
