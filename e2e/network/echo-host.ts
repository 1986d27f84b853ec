/** Hosts a service as a process of its own: `echo-host.ts <identity file> <service> <name>`. Answers every connection with its name, then with what it gets. */
import { Context } from "@sallyport/sdk";

const [file = "", service = "", name = ""] = process.argv.slice(2);
const context = await Context.load(file);
const listener = await context.listen(service, { allowHalfOpen: true });
listener.on("error", () => {});
listener.on("connection", (connection) => {
  connection.on("error", () => {});
  connection.write(`${name}\n`);
  connection.pipe(connection);
});
console.log(`hosting as ${name}`);
