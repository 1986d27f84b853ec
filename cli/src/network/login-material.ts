/** What a way to log in needs from files: certificates, keys, tokens. */
import { dirname, resolve } from "node:path";
import type { CommandContext } from "../context.ts";
import { CommandError } from "../errors.ts";
import { givenLine, givenText } from "../terminal/given-text.ts";
import type { Proof } from "./authenticate.ts";
import type { LoginWay } from "./saved-network.ts";

/** Certificate and key of connections, and what a session is begun with. */
export interface LoginMaterial {
  readonly cert?: string;
  readonly key?: string;
  /** Absent where only the user can give it. */
  readonly proof?: Proof;
}

/** Reads it again from its files. @throws CommandError */
export async function loginMaterial(way: LoginWay, context: CommandContext): Promise<LoginMaterial> {
  switch (way.method) {
    case "password": {
      const { username, passwordFile } = way;
      if (passwordFile === undefined) return {};
      return { proof: { method: "password", username, password: await givenLine(passwordFile, context) } };
    }
    case "token":
      if (way.file === undefined) return {};
      return { proof: { method: "ext-jwt", token: await givenLine(way.file, context) } };
    case "certificate": {
      const [cert, key] = [await givenText(way.certFile, context), await givenText(way.keyFile, context)];
      return { cert, key, proof: { method: "cert" } };
    }
    case "identity": {
      const { cert, key } = await identityFile(way.file, context);
      return { cert, key, proof: { method: "cert" } };
    }
  }
}

export interface IdentityMaterial {
  /** `https://host:port` */
  readonly controller: string;
  readonly cert: string;
  readonly key: string;
  readonly ca: string | undefined;
}

/** An identity file as enrollments write it (docs/protocol/identity.md, "Identity file"). @throws CommandError */
export async function identityFile(file: string, context: CommandContext): Promise<IdentityMaterial> {
  const { loadIdentity } = await import("@sallyport/wire/identity");
  const fail = (what: string) => new CommandError(`${file} is no identity file: ${what}`);
  let content: { ztAPI?: unknown; ztAPIs?: unknown; id?: { cert?: unknown; key?: unknown } } | null;
  try {
    content = JSON.parse(await givenText(file, context)) as typeof content;
  } catch (error) {
    throw error instanceof CommandError ? error : fail("it holds no JSON");
  }
  const { ztAPI, ztAPIs, id } = content ?? {};
  const address: unknown = (Array.isArray(ztAPIs) ? ztAPIs[0] : undefined) ?? ztAPI;
  const url = typeof address === "string" ? URL.parse(address) : null;
  if (url?.protocol !== "https:") throw fail("expected ztAPI to be https://HOST:PORT/…");
  if (typeof id?.cert !== "string" || typeof id.key !== "string") throw fail("expected id with cert and key");
  try {
    const identity = await loadIdentity({ ...id, cert: id.cert, key: id.key }, dirname(resolve(file)));
    return { controller: url.origin, cert: identity.certPem, key: identity.keyPem, ca: identity.caPem || undefined };
  } catch (error) {
    throw fail((error as Error).message);
  }
}
