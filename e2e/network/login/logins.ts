import type { ApiClient } from "@sallyport/api";

/** How programs log in: by OpenID Connect, or by `POST /authenticate`. */
export type LoginKind = "oidc" | "legacy";

/** Of the programs at a controller whose file says nothing of it. */
const DEFAULT_LOGIN: LoginKind = "oidc";
const OIDC_ENABLED = /^( {2}oidc:\n) {4}(?:# )?enabled: \w+$/m;

/** `SALLYPORT_LOGIN`, which chooses for the programs of this run; undefined leaves controllers to their default. */
export function chosenLogin(text = process.env.SALLYPORT_LOGIN): LoginKind | undefined {
  if (!text) return undefined;
  if (text === "oidc" || text === "legacy") return text;
  throw new Error(`SALLYPORT_LOGIN=${text}: expected oidc or legacy`);
}

/** How the programs of this run log in. */
export function loginOfRun(): LoginKind {
  return chosenLogin() ?? DEFAULT_LOGIN;
}

/** A controller's file, as `init` writes it, for a network whose programs log in this way: they log in by OpenID Connect wherever it is served. */
export function withLogin(file: string, login: LoginKind): string {
  if (!OIDC_ENABLED.test(file))
    throw new Error("the controller.yml has no line for edge.oidc.enabled, not even a comment");
  return file.replace(OIDC_ENABLED, `$1    enabled: ${login === "oidc"}`);
}

/** The open API sessions of an identity, by its id or its name. */
export async function sessionsOf(management: ApiClient<"management">, identity: string) {
  const { data } = await management.listAPISessions({ query: { limit: 500 } });
  return data.filter((session) => session.identity.id === identity || session.identity.name === identity);
}

/** Ends the API sessions of an identity, by its id or its name. */
export async function endSessionsOf(management: ApiClient<"management">, identity: string): Promise<void> {
  for (const { id } of await sessionsOf(management, identity)) await management.deleteAPISessions({ params: { id } });
}

/** How the open API sessions of an identity were begun. Those by OpenID Connect have no token that the API could show. */
export async function loginsOf(management: ApiClient<"management">, identity: string): Promise<LoginKind[]> {
  return (await sessionsOf(management, identity)).map(({ token }) => (token === "" ? "oidc" : "legacy"));
}
