import { readFile } from "node:fs/promises";
import { z } from "zod";

/** An identity without a key of its own: it logs in by tokens of a provider that the network trusts. */
export interface JoinedIdentity {
  /** `https://host:port` */
  readonly controller: string;
  /** PEM bundle that the controller and the routers are checked against. */
  readonly ca: string;
  readonly login: ExternalLogin;
}

/** How its tokens are had. */
interface ExternalLogin {
  /** Name or id of the network's signer; may be left out where there is one only. */
  readonly signer?: string | undefined;
  /** A file that always holds a fresh token, for machines. */
  readonly tokenFile?: string | undefined;
  /** With a code that is entered in a browser of another machine. */
  readonly device?: boolean | undefined;
}

/** The file, in the form of identity files of OpenZiti; `login` is ours. */
const joinedFile = z.object({
  ztAPI: z.url({ protocol: /^https$/ }),
  id: z.object({ ca: z.string().startsWith("pem:"), cert: z.null().optional(), key: z.null().optional() }),
  login: z
    .object({ signer: z.string().optional(), tokenFile: z.string().optional(), device: z.boolean().optional() })
    .default({}),
});

/** The content of a file for {@link readJoinedIdentity}. */
export function joinedFileOf({ controller, ca, login }: JoinedIdentity): object {
  return {
    ztAPI: `${controller}/edge/client/v1`,
    ztAPIs: null,
    configTypes: null,
    id: { ca: `pem:${ca}` },
    enableHa: false,
    login,
  };
}

/** Reads an identity file; undefined when it is another one, or none at all: the SDK says what is wrong with it then. */
export async function readJoinedIdentity(file: string): Promise<JoinedIdentity | undefined> {
  let content: unknown;
  try {
    content = JSON.parse(await readFile(file, "utf8"));
  } catch {
    return undefined;
  }
  const { success, data } = joinedFile.safeParse(content);
  if (!success) return undefined;
  return { controller: new URL(data.ztAPI).origin, ca: data.id.ca.slice("pem:".length), login: data.login };
}
