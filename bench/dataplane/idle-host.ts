/** Hosts a service with our SDK and echoes, with as little as possible per connection: `node idle-host.ts IDENTITY SERVICE`. */
import { Context } from "@sallyport/sdk";

const [identityFile = "", service = ""] = process.argv.slice(2);
const context = await Context.load(identityFile);
const server = await context.listen(service);
server.on("connection", (stream) => {
  stream.on("data", (chunk: Buffer) => stream.write(chunk));
  stream.on("error", () => stream.destroy());
});
console.log("hosting");

process.once("SIGTERM", () => process.exit(0));
