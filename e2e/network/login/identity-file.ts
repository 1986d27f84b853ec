import { readFileSync } from "node:fs";
import { type ApiClient, createClient } from "@sallyport/api";
import type { IdentityFile } from "@sallyport/sdk";

/** What a value of an identity file holds, as PEM. */
export const pem = (value: string | null | undefined): string => (value ?? "").replace(/^pem:/, "");

/** The authorities, certificate and key in an identity file, as PEM. */
export function credentialsOf(file: string): Record<"ca" | "cert" | "key", string> {
  const { id } = JSON.parse(readFileSync(file, "utf8")) as IdentityFile;
  return { ca: pem(id.ca), cert: pem(id.cert), key: pem(id.key) };
}

/** A client of the controller at this port, with an API session of the owner of an identity file. The caller closes it. */
export async function loggedIn(file: string, port: number): Promise<ApiClient<"client">> {
  const client = createClient("client", { baseUrl: `https://localhost:${port}`, ...credentialsOf(file) });
  const session = await client.authenticate({ query: { method: "cert" }, body: {} });
  client.setToken(session.data.token);
  return client;
}
