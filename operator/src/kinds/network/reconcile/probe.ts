import { listAll } from "@sallyport/api/client";
import type { ManagementClient } from "../../../controller-client/connection.ts";
import type { Findings } from "../plan/conditions.ts";
import { type NetworkProblem, stalled } from "../plan/problem.ts";
import { serverVersion } from "../plan/server-version.ts";
import type { NetworkStatus } from "../schema.ts";
import { type ConnectionProblem, connectionProblem } from "./connection-problem.ts";

/** What the status shows of a controller that was reached. */
export type ServerStatus = Pick<NetworkStatus, "serverVersion" | "apiVersion" | "controllers" | "sessionIdentity">;

export interface Probe {
  readonly findings: Findings;
  /** What was learned; after a problem only what came before it. */
  readonly status: ServerStatus;
  readonly problem?: ConnectionProblem;
}

/** Problems of the login; others of the same call are of the connection. */
const OF_LOGIN = new Set<NetworkProblem["reason"]>(["NetworkUnauthorized", "RateLimited", "NotAdministrator"]);

/**
 * Looks whether a network can be used: its controller answers, is of a version that the operator knows, takes the login, and the login is an
 * administrator's. `trust` says in messages where the certificates to trust come from.
 */
export async function probeNetwork(
  client: ManagementClient,
  { trust, signal }: { readonly trust: string; readonly signal: AbortSignal },
): Promise<Probe> {
  let findings: Findings = {};
  let status: ServerStatus = {};
  const failed = (error: unknown): Probe => {
    signal.throwIfAborted();
    const problem = connectionProblem(error, trust);
    if (problem === undefined) throw error;
    const step = OF_LOGIN.has(problem.reason) ? { login: problem } : { connection: problem };
    return { findings: { ...findings, ...step }, status, problem };
  };
  try {
    const { problem, ...version } = serverVersion((await client.listVersion({}, { signal })).data);
    status = version;
    findings = { serverVersion: version.serverVersion };
    if (problem !== undefined) return { findings: { ...findings, version: problem }, status, problem };

    const { name, isAdmin } = (await client.getCurrentIdentity({}, { signal })).data;
    status = { ...status, sessionIdentity: name };
    findings = { ...findings, identity: name };
    if (!isAdmin) return notAdministrator(name, findings, status);

    const controllers = await listAll((query) => client.listControllers({ query }, { signal }));
    return { findings, status: { ...status, ...controllersIn(controllers) } };
  } catch (error) {
    return failed(error);
  }
}

function notAdministrator(name: string, findings: Findings, status: ServerStatus): Probe {
  const problem = stalled(
    "NotAdministrator",
    `the identity ${name}, which the operator logs in as, is no administrator: set isAdmin of that identity, or give the credentials of another one`,
  );
  return { findings: { ...findings, login: problem }, status, problem };
}

interface FoundController {
  readonly name: string;
  readonly ctrlAddress?: string | null | undefined;
  readonly isOnline?: boolean | undefined;
}

/** Sorted, so that the status doesn't change with the order in which the server tells them. */
function controllersIn(found: readonly FoundController[]): Pick<ServerStatus, "controllers"> {
  if (found.length === 0) return {};
  const controllers = found
    .map(({ name, ctrlAddress, isOnline }) => ({
      name,
      ...(ctrlAddress ? { ctrlAddress } : {}),
      ...(isOnline === undefined ? {} : { online: isOnline }),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return { controllers };
}
