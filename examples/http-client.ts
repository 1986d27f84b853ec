/** Fetches a page from a service: `node examples/http-client.ts IDENTITY_FILE SERVICE [PATH]`. */
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { Context } from "@sallyport/sdk";

const [identityFile = "", service = "", path = "/"] = process.argv.slice(2);

const context = await Context.load(identityFile, { signal: AbortSignal.timeout(10_000) });
try {
  const request = get({ agent: context.httpAgent(), host: service, path });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  for await (const chunk of response.setEncoding("utf8")) process.stdout.write(chunk);
} finally {
  await context.close();
}
