/** An application of a user: written into a project that has the SDK from npm, checked there by the compiler, and run. */
export const APPLICATION = `import { Context, DialError, type EdgeConnection, enroll, type IdentityFile, SdkError } from "@sallyport/sdk";

const [hostFile = "", clientFile = ""] = process.argv.slice(2);
const host: Context = await Context.load(hostFile);
const client = await Context.load(clientFile, { signal: AbortSignal.timeout(60_000) });
const server = await host.listen("echo", { allowHalfOpen: true });
server.on("connection", (connection: EdgeConnection) => {
  connection.on("error", () => {});
  connection.pipe(connection);
});
const socket = await client.dial("echo", { timeoutMs: 60_000, allowHalfOpen: true });
const chunks: Buffer[] = [];
socket.on("data", (chunk: Buffer) => chunks.push(chunk));
const ended = new Promise<void>((resolve, reject) => socket.once("end", resolve).once("error", reject));
socket.end(Buffer.alloc(1_000_000, "x"));
await ended;
console.log(\`\${process.version} \${Buffer.concat(chunks).length} \${socket.isEncrypted}\`);
const refused: unknown = await client.dial("nothing").catch((error: unknown) => error);
console.log(refused instanceof SdkError && !(refused instanceof DialError) ? refused.code : refused);
if (process.argv[4] === "serve") {
  console.log("serving");
  await new Promise<void>((resolve) => process.once("SIGTERM", resolve));
}
await server.close();
await client.close();
await host.close();
export type Redeem = (token: string) => Promise<IdentityFile>;
export const redeem: Redeem = (token) => enroll(token);
`;

/** What it must not be able to compile: the types are there, and say something. */
export const WRONG = `import { Context } from "@sallyport/sdk";

const context = await Context.load("me.json");
await context.dial(80);
`;
